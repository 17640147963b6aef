#include "kernels/bf16.h"
#include "kernels/gemm.h"

namespace lockstep::kernels::reference {
namespace {

template <typename Args, typename Widen>
void multiply(const Args& args, Widen widen) {
  for (int64_t i = 0; i < args.m; ++i) {
    for (int64_t j = 0; j < args.n; ++j) {
      double sum = args.beta == 0.0f ? 0.0 : double{args.beta} * args.c[i * args.ldc + j];
      for (int64_t p = 0; p < args.k; ++p) {
        const auto a = args.a[args.transpose_a == Transpose::kYes ? p * args.lda + i : i * args.lda + p];
        const auto b = args.b[args.transpose_b == Transpose::kYes ? j * args.ldb + p : p * args.ldb + j];
        sum += widen(a) * widen(b);
      }
      args.c[i * args.ldc + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace

void gemm(const GemmArgs& args) {
  multiply(args, [](float x) { return double{x}; });
}
void gemm(const GemmBf16Args& args) {
  multiply(args, [](uint16_t x) { return double{from_bf16(x)}; });
}

}  // namespace lockstep::kernels::reference
