// A test buffer that ends right before an inaccessible page (and begins right after another), so that reading
// or writing one element too far is a crash and not luck. The start is then misaligned whenever the size is
// not a multiple of the vector.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace lockstep::kernels::testing {

enum class Edge : bool { kEnd, kStart };

/// `count` zeroed elements of T against a guard page at their end (default) or at their start.
template <typename T>
class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t count, Edge edge = Edge::kEnd) : count_(count) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    const size_t inner = (bytes + page - 1) / page * page;
    mapped_bytes_ = inner + 2 * page;
    void* base = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LOCKSTEP_CHECK(base != MAP_FAILED) << "mmap of " << mapped_bytes_ << " bytes";
    base_ = static_cast<std::byte*>(base);
    if (inner > 0) {
      LOCKSTEP_CHECK(mprotect(base_ + page, inner, PROT_READ | PROT_WRITE) == 0) << "mprotect";
    }
    std::byte* start = base_ + page + (edge == Edge::kEnd ? inner - bytes : 0);
    data_ = reinterpret_cast<T*>(start);
  }
  ~GuardedBuffer() { munmap(base_, mapped_bytes_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return count_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + count_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + count_; }

  void copy_from(const T* source) { std::memcpy(data_, source, static_cast<size_t>(count_) * sizeof(T)); }

 private:
  int64_t count_;
  size_t mapped_bytes_ = 0;
  std::byte* base_ = nullptr;
  T* data_ = nullptr;
};

}  // namespace lockstep::kernels::testing
