// Layer normalisation over the last dimension, biased variance (Ba, Kiros, Hinton 2016), alone and fused with
// the residual addition in front of it.
//
// xhat = (x - mean) * rstd, y = xhat * w + b. b may be null everywhere (nanoGPT's bias=False). What the
// backward pass needs are x (or the residual sum), mean and rstd; y can be recomputed with layer_norm_apply.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"

namespace lockstep::kernels {

/// x, y (rows, C); w, b (C); mean, rstd (rows).
void layer_norm_forward(const float* x, const float* w, const float* b, int64_t rows, int64_t C,
                        float epsilon, float* y, float* mean, float* rstd);

/// sum = x + dropout(delta + delta_bias); y = layer_norm(sum). sum may equal x. delta_bias (C) may be null.
/// rows = B * rows_per_sample: the dropout element index of (row, c) is (row % rows_per_sample) * C + c.
void residual_layer_norm_forward(const float* x, const float* delta, const float* delta_bias, const float* w,
                                 const float* b, int64_t rows, int64_t C, float epsilon,
                                 const DropoutKey& key, int64_t rows_per_sample, float* sum, float* y,
                                 float* mean, float* rstd);

/// y = layer_norm(x) from known statistics.
void layer_norm_apply(const float* x, const float* mean, const float* rstd, const float* w, const float* b,
                      int64_t rows, int64_t C, float* y);

/// dx = (dx_beta == 1 ? dx : 0) + gradient through the norm; dw and db (db may be null) are added to what is
/// there (grad_beta == 1) or written (grad_beta == 0). dy may equal dx when dx_beta == 0. When y is not null
/// the forward output is recomputed into it in the same sweep. Column sums are taken over fixed blocks of
/// rows, in order: workspace holds layer_norm_backward_workspace(rows, C) floats.
void layer_norm_backward(const float* dy, const float* x, const float* mean, const float* rstd,
                         const float* w, const float* b, int64_t rows, int64_t C, float dx_beta, float* dx,
                         float grad_beta, float* dw, float* db, float* y, float* workspace);
int64_t layer_norm_backward_workspace(int64_t rows, int64_t C);

namespace reference {
void layer_norm_forward(const float* x, const float* w, const float* b, int64_t rows, int64_t C,
                        float epsilon, float* y, float* mean, float* rstd);
void layer_norm_backward(const float* dy, const float* x, const float* mean, const float* rstd,
                         const float* w, int64_t rows, int64_t C, float dx_beta, float* dx, float grad_beta,
                         float* dw, float* db);
}  // namespace reference

}  // namespace lockstep::kernels
