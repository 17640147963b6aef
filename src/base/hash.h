// Hashes: SHA-256 names content (files, data sets); XXH3-128 proves replicas and checkpoints equal, fast.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Incremental SHA-256 (FIPS 180-4, by libsodium).
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  /// 64 lower-case hex digits. Call once, last.
  std::string finish_hex();

 private:
  alignas(8) std::array<unsigned char, 128> state_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

/// Incremental XXH3-128: the same value as xxh3_hex of all the bytes, however they are cut.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(std::span<const std::byte> bytes);
  /// 32 lower-case hex digits of everything so far; more may follow.
  std::string hex() const;

 private:
  void* state_;  ///< XXH3_state_t, from the library's aligned allocator
};

/// XXH3-128 as 32 lower-case hex digits. Not cryptographic.
std::string xxh3_hex(std::span<const std::byte> bytes);
std::string xxh3_hex(std::string_view text);

}  // namespace lockstep
