// What gemm.cc needs from the GEMM library, and nothing of its headers. Internal to kernels.
//
// `threaded` = false computes on the calling thread alone, inside a parallel region and outside of one: how
// the library divides a product among its threads would show in the bits. Its own threads serve only as a
// yardstick (gemm_peak).
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/gemm.h"

namespace lockstep::kernels::backend {

/// "oneDNN 2.6.3, avx512_core_bf16": the version that is loaded and the instruction set it uses.
const char* library();

/// Whether the library has bf16 instructions to use here (AVX512-BF16 or AMX, unless it was told not to).
bool has_fast_bf16();

/// One product of the library.
void sgemm(const GemmArgs& args, bool threaded);

/// A bf16 product prepared for one shape, strides, transposes and beta; the pointers are given later.
/// Immutable: any number of threads may run it at a time, each with its own scratch.
class Bf16Product {
 public:
  virtual ~Bf16Product() = default;
  /// Bytes of 64-byte aligned scratch that run() needs.
  virtual size_t scratch_bytes() const = 0;
  virtual void run(const uint16_t* a, const uint16_t* b, float* c, std::byte* scratch) const = 0;
};

/// Pointers in `args` are ignored. Null when the library has no bf16 kernel on this CPU. `threaded` prepares
/// for the library's own threads, otherwise for one. Not inside a parallel region.
std::unique_ptr<Bf16Product> make_bf16_product(const GemmBf16Args& args, bool threaded);

}  // namespace lockstep::kernels::backend
