#include "base/hash.h"

#include <fmt/format.h>
#include <sodium.h>
#include <xxhash.h>

#include "base/check.h"

namespace lockstep {
namespace {

static_assert(sizeof(crypto_hash_sha256_state) <= 128);

crypto_hash_sha256_state* state_of(std::array<unsigned char, 128>& bytes) {
  return reinterpret_cast<crypto_hash_sha256_state*>(bytes.data());
}

std::string to_hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

Sha256::Sha256() {
  crypto_hash_sha256_init(state_of(state_));
}

void Sha256::update(std::span<const std::byte> bytes) {
  crypto_hash_sha256_update(state_of(state_), reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
}

std::string Sha256::finish_hex() {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256_final(state_of(state_), digest.data());
  std::string hex;
  for (unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.finish_hex();
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  LOCKSTEP_CHECK(state_ != nullptr) << "out of memory";
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_));
}

Xxh3::~Xxh3() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

void Xxh3::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

std::string Xxh3::hex() const {
  return to_hex(XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_)));
}

std::string xxh3_hex(std::span<const std::byte> bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string xxh3_hex(std::string_view text) {
  return xxh3_hex(std::as_bytes(std::span(text)));
}

}  // namespace lockstep
