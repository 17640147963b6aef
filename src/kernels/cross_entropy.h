// Softmax cross-entropy over rows of logits, with its gradient in place. The caller makes logits in chunks of
// rows, so that (B * T, V) never exists.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// The target that is ignored: loss 0, gradient 0.
inline constexpr int32_t kIgnoreTarget = -1;

/// logits (rows, V) at row stride ld become (softmax - onehot(target)) * scale; losses (rows) = -log
/// p(target). Targets lie in [0, V) or are kIgnoreTarget.
void cross_entropy_forward_backward(float* logits, int64_t rows, int64_t V, int64_t ld,
                                    const int32_t* targets, float scale, float* losses);

/// losses only; logits are read.
void cross_entropy_forward(const float* logits, int64_t rows, int64_t V, int64_t ld, const int32_t* targets,
                           float* losses);

namespace reference {
void cross_entropy_forward_backward(float* logits, int64_t rows, int64_t V, int64_t ld,
                                    const int32_t* targets, float scale, float* losses);
}

}  // namespace lockstep::kernels
