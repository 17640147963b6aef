// GELU (Hendrycks, Gimpel 2016), x * Phi(x): the erf form (nanoGPT) and the tanh form (OpenAI, llm.c), with
// the bias addition in front of it. The backward pass computes the value and the derivative from one
// exponential. The _tile forms work on one tile, on the calling thread, for use as a GEMM epilogue
// (kernels/gemm.h).
#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace lockstep::kernels {

enum class Gelu : uint8_t { kErf, kTanh };

/// pre = pre + bias (bias (cols of the whole matrix) may be null), act = gelu(pre), on one tile; both have
/// row stride ld. act may equal pre (inference: the pre-activation is not kept).
void bias_gelu_forward_tile(Gelu kind, float* pre, const float* bias, int64_t ld, const Tile& tile,
                            float* act);

/// dpre = dact * gelu'(pre) in place of dact, and act = gelu(pre) recomputed (act may be null), on one tile.
void gelu_backward_tile(Gelu kind, const float* pre, int64_t ld, const Tile& tile, float* dact_to_dpre,
                        float* act);

/// act = gelu(pre) over n elements, in parallel.
void gelu_forward(Gelu kind, const float* pre, int64_t n, float* act);

/// x[row, c] += bias[c] on one tile.
void bias_tile(float* x, const float* bias, int64_t ld, const Tile& tile);

/// db[c] = beta * db[c] + sum over rows of dy[row, c]; rows are summed over fixed blocks in order, so the
/// result does not depend on threads. workspace: column_sum_workspace(rows, cols) floats. beta is 0 or 1.
void column_sum(const float* dy, int64_t rows, int64_t cols, float beta, float* db, float* workspace);
int64_t column_sum_workspace(int64_t rows, int64_t cols);

namespace reference {
/// In double.
double gelu(Gelu kind, double x);
double gelu_derivative(Gelu kind, double x);
}  // namespace reference

}  // namespace lockstep::kernels
