// Causal self-attention in tiles, as in FlashAttention (Dao et al. 2022): the masked half is skipped and T x
// T is never stored. qkv is the output of the fused projection, (B, T, 3C), query | key | value, heads
// contiguous, C = H * D; scores are scaled by 1 / sqrt(D). Dropout acts on the probabilities after softmax;
// the dropout element index of probability (h, i, j) is (h * T + i) * T + j within the sample, T being the
// shape's. Work is cut by batch, head and (forward) 384 queries; one thread sums each result in a fixed
// order, so the bits do not depend on the thread count (they do on the instruction set).
//
// Scores of any size are safe, since the largest of a row is subtracted; scores that overflow float give NaN.
// A NaN among the inputs of a row reaches its outputs.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"

namespace lockstep::kernels {

struct AttentionShape {
  int64_t B, T, H, D;  ///< batch, time, heads, head size; any values >= 1
};

/// Floats of workspace that the two functions below need together (it grows with threads, not with T * T *
/// B).
int64_t attention_workspace(const AttentionShape& shape, int threads);

/// out (B, T, C); lse (B, H, T) = log of the sum of exponentials of the scaled scores of each query.
void causal_attention_forward(const AttentionShape& shape, const float* qkv, const DropoutKey& key,
                              float* out, float* lse, float* workspace);

/// dqkv (B, T, 3C) is written, from dout (B, T, C) and what the forward pass left.
void causal_attention_backward(const AttentionShape& shape, const float* qkv, const float* out,
                               const float* lse, const float* dout, const DropoutKey& key, float* dqkv,
                               float* workspace);

/// One query against a key/value cache, for generation: q (B, H, D) at row stride q_stride; keys and values
/// are (B, H, capacity, D), of which the first `length` positions count; out (B, H * D) at row stride
/// out_stride.
struct DecodeShape {
  int64_t B, H, D, capacity, length;
};
void decode_attention(const DecodeShape& shape, const float* q, int64_t q_stride, const float* keys,
                      const float* values, float* out, int64_t out_stride);

namespace reference {
/// In double inside; the probabilities of one head are materialised.
void causal_attention_forward(const AttentionShape& shape, const float* qkv, const DropoutKey& key,
                              float* out, float* lse);
void causal_attention_backward(const AttentionShape& shape, const float* qkv, const float* dout,
                               const DropoutKey& key, float* dqkv);
}  // namespace reference

}  // namespace lockstep::kernels
