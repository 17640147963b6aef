// The three products of a linear layer y = x W^T (W is (out, in), as in PyTorch), in fp32 or with bf16
// inputs.
//
// In bf16 the weights come from a copy that is refreshed once per update, and x and dy are rounded into two
// scratch buffers just before the product that reads them; sums and results stay fp32. Internal to model.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"
#include "model/config.h"
#include "tensor/buffer.h"

namespace lockstep {

class LinearOps {
 public:
  /// Takes bf16 scratch for operands of up to `input_count` and `gradient_count` elements from the arena
  /// (none in fp32) and, in bf16, a copy of flat_count parameters.
  LinearOps(ComputeType compute, int64_t flat_count, int64_t input_count, int64_t gradient_count,
            Arena& arena);

  /// Refreshes the bf16 copy of the weights.
  void weights_changed(const float* params, int64_t flat_count);

  /// y (rows, out) = x (rows, in) W^T; W begins at params + offset. The epilogue sees tiles of y.
  void forward(const float* x, int64_t rows, int64_t in, const float* params, int64_t offset, int64_t out,
               float* y, kernels::TileEpilogue epilogue = {});
  /// dx (rows, in) = dy (rows, out) W, and remembers dy for backward_weight.
  void backward_input(const float* dy, int64_t rows, int64_t out, const float* params, int64_t offset,
                      int64_t in, float* dx, kernels::TileEpilogue epilogue = {});
  /// dw (out, in) = beta dw + dy^T x. `dy_is_remembered`: dy is unchanged since backward_input, so its bf16
  /// form is used again.
  void backward_weight(const float* dy, const float* x, int64_t rows, int64_t out, int64_t in, float beta,
                       float* dw, bool dy_is_remembered);

 private:
  bool bf16_;
  uint16_t* weights_ = nullptr;   // (flat_count)
  uint16_t* input_ = nullptr;     // x of the product at hand
  uint16_t* gradient_ = nullptr;  // dy of the product at hand
};

}  // namespace lockstep
