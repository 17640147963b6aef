// Token and position embeddings and their gradients.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"

namespace lockstep::kernels {

/// out[b, t, :] = dropout(wte[tokens[b, t], :] + wpe[t, :]); tokens (B, T) in [0, V); wte (V, C); wpe (>= T,
/// C).
void embedding_forward(const int32_t* tokens, const float* wte, const float* wpe, int64_t B, int64_t T,
                       int64_t C, const DropoutKey& key, float* out);

/// dwte[token] += dout rows, in row order (the same bits on any number of threads); dwpe[t] = beta * dwpe[t]
/// + sum over b for t < T; rows of dwpe from T to wpe_rows are set to 0 when beta is 0. dout already went
/// through dropout.
void embedding_backward(const int32_t* tokens, const float* dout, int64_t B, int64_t T, int64_t C,
                        float* dwte, float beta, float* dwpe, int64_t wpe_rows);

namespace reference {
void embedding_forward(const int32_t* tokens, const float* wte, const float* wpe, int64_t B, int64_t T,
                       int64_t C, const DropoutKey& key, float* out);
void embedding_backward(const int32_t* tokens, const float* dout, int64_t B, int64_t T, int64_t C,
                        float* dwte, float beta, float* dwpe, int64_t wpe_rows);
}  // namespace reference

}  // namespace lockstep::kernels
