// Memory the engine computes in: aligned, zeroed by the system, never resized. No arithmetic lives here.
//
// Buffer owns one allocation. Arena hands out slices of one Buffer that was sized by a dry run of the same
// calls (an Arena without a Buffer), so that memory is known before the first step and constant afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep {

inline constexpr size_t kBufferAlignment = 64;  ///< bytes: a cache line, and the widest vector

/// Rounds a number of floats up so that the next slice starts aligned.
inline constexpr int64_t aligned_floats(int64_t count) {
  constexpr int64_t kStep = kBufferAlignment / sizeof(float);
  return (count + kStep - 1) / kStep * kStep;
}

/// One anonymous mapping: page-aligned, zero until written, resident only where touched. Movable.
class Buffer {
 public:
  Buffer() = default;
  /// bytes >= 0. Aborts with a clear message when the system refuses (callers check the plan against free
  /// memory).
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  float* floats() { return reinterpret_cast<float*>(data_); }
  const float* floats() const { return reinterpret_cast<const float*>(data_); }
  std::span<const std::byte> view() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Lays slices one after the other, each aligned. With a null base it only counts (the plan).
class Arena {
 public:
  Arena() = default;  ///< counting only
  explicit Arena(Buffer& buffer) : buffer_(&buffer) {}

  /// Slice of `count` elements; null while counting. CHECKs that it fits.
  template <typename T>
  T* take(int64_t count) {
    return reinterpret_cast<T*>(take_bytes(static_cast<size_t>(count) * sizeof(T)));
  }
  size_t used_bytes() const { return used_; }
  /// Gives back everything taken after `mark` = an earlier used_bytes(): scratch that overlaps in time.
  void rewind(size_t mark) { used_ = mark; }
  /// The largest used_bytes() ever.
  size_t peak_bytes() const { return peak_; }

 private:
  std::byte* take_bytes(size_t bytes);
  Buffer* buffer_ = nullptr;
  size_t used_ = 0;
  size_t peak_ = 0;
};

}  // namespace lockstep
