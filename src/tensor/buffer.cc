#include "tensor/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lockstep {

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LOCKSTEP_CHECK(address != MAP_FAILED) << "cannot map " << bytes << " bytes of memory";
  // Huge pages where the system allows them: fewer TLB misses in GEMM packing and in the optimizer's sweep.
  if (bytes >= (size_t{1} << 22)) ::madvise(address, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(address);
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::byte* Arena::take_bytes(size_t bytes) {
  const size_t begin = used_;
  used_ += (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  peak_ = std::max(peak_, used_);
  if (buffer_ == nullptr) return nullptr;
  LOCKSTEP_CHECK_LE(used_, buffer_->bytes());
  return buffer_->data() + begin;
}

}  // namespace lockstep
