#include "model/linear.h"

#include "kernels/bf16.h"

namespace lockstep {

using kernels::GemmArgs;
using kernels::GemmBf16Args;
using kernels::Transpose;

LinearOps::LinearOps(ComputeType compute, int64_t flat_count, int64_t input_count, int64_t gradient_count,
                     Arena& arena)
    : bf16_(compute == ComputeType::kBf16) {
  if (!bf16_) return;
  weights_ = arena.take<uint16_t>(flat_count);
  input_ = arena.take<uint16_t>(input_count);
  gradient_ = arena.take<uint16_t>(gradient_count);
}

void LinearOps::weights_changed(const float* params, int64_t flat_count) {
  if (bf16_) kernels::convert_to_bf16(params, flat_count, weights_);
}

void LinearOps::forward(const float* x, int64_t rows, int64_t in, const float* params, int64_t offset,
                        int64_t out, float* y, kernels::TileEpilogue epilogue) {
  if (!bf16_) {
    kernels::gemm(GemmArgs{.transpose_b = Transpose::kYes,
                           .m = rows,
                           .n = out,
                           .k = in,
                           .a = x,
                           .lda = in,
                           .b = params + offset,
                           .ldb = in,
                           .beta = 0.0f,
                           .c = y,
                           .ldc = out},
                  epilogue);
    return;
  }
  kernels::convert_to_bf16(x, rows * in, input_);
  kernels::gemm(GemmBf16Args{.transpose_b = Transpose::kYes,
                             .m = rows,
                             .n = out,
                             .k = in,
                             .a = input_,
                             .lda = in,
                             .b = weights_ + offset,
                             .ldb = in,
                             .beta = 0.0f,
                             .c = y,
                             .ldc = out},
                epilogue);
}

void LinearOps::backward_input(const float* dy, int64_t rows, int64_t out, const float* params,
                               int64_t offset, int64_t in, float* dx, kernels::TileEpilogue epilogue) {
  if (!bf16_) {
    kernels::gemm(GemmArgs{.m = rows,
                           .n = in,
                           .k = out,
                           .a = dy,
                           .lda = out,
                           .b = params + offset,
                           .ldb = in,
                           .beta = 0.0f,
                           .c = dx,
                           .ldc = in},
                  epilogue);
    return;
  }
  kernels::convert_to_bf16(dy, rows * out, gradient_);
  kernels::gemm(GemmBf16Args{.m = rows,
                             .n = in,
                             .k = out,
                             .a = gradient_,
                             .lda = out,
                             .b = weights_ + offset,
                             .ldb = in,
                             .beta = 0.0f,
                             .c = dx,
                             .ldc = in},
                epilogue);
}

void LinearOps::backward_weight(const float* dy, const float* x, int64_t rows, int64_t out, int64_t in,
                                float beta, float* dw, bool dy_is_remembered) {
  if (!bf16_) {
    kernels::gemm(GemmArgs{.transpose_a = Transpose::kYes,
                           .m = out,
                           .n = in,
                           .k = rows,
                           .a = dy,
                           .lda = out,
                           .b = x,
                           .ldb = in,
                           .beta = beta,
                           .c = dw,
                           .ldc = in});
    return;
  }
  if (!dy_is_remembered) kernels::convert_to_bf16(dy, rows * out, gradient_);
  kernels::convert_to_bf16(x, rows * in, input_);
  kernels::gemm(GemmBf16Args{.transpose_a = Transpose::kYes,
                             .m = out,
                             .n = in,
                             .k = rows,
                             .a = gradient_,
                             .lda = out,
                             .b = input_,
                             .ldb = in,
                             .beta = beta,
                             .c = dw,
                             .ldc = in});
}

}  // namespace lockstep
