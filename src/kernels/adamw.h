// The optimizer's arithmetic: element-wise, separate multiplications and additions, correctly rounded
// division and square root, so that every instruction set gives the same bits; and norms summed in fixed
// virtual lanes.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// The numbers of one AdamW step (Loshchilov, Hutter 2019), in PyTorch's order:
///   g' = g * grad_scale; p *= 1 - lr * weight_decay; m = m + (1 - beta1) * (g' - m);
///   v = beta2 * v + (1 - beta2) * g' * g'; p -= step_size * m / (sqrt(v) * rsqrt_correction + epsilon)
/// Everything that needs powers or libm is computed once (by one rank) and handed in.
struct AdamWScalars {
  float grad_scale;        ///< clip factor / tokens
  float decay;             ///< 1 - lr * weight_decay
  float beta1_complement;  ///< 1 - beta1
  float beta2, beta2_complement;
  float step_size;           ///< lr / (1 - beta1^t)
  float inverse_sqrt_bias2;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
};

/// p, m, v (n) updated in place from g (n), in one sweep. The same bits on every instruction set and thread
/// count.
void adamw_update(float* p, const float* g, float* m, float* v, int64_t n, const AdamWScalars& scalars);

/// Sum of squares of x (n): blocks of kNormBlock elements, each in kNormLanes fp32 lanes (element i goes to
/// lane i % kNormLanes) that are folded by halves (lane j += lane j + width / 2); block sums are added in
/// double in order. The same bits on every instruction set and thread count. NaN and infinity survive into
/// the result. workspace: sum_of_squares_workspace(n) floats.
inline constexpr int64_t kNormBlock = 8192;
inline constexpr int64_t kNormLanes = 16;
double sum_of_squares(const float* x, int64_t n, float* workspace);
int64_t sum_of_squares_workspace(int64_t n);

namespace reference {
void adamw_update(float* p, const float* g, float* m, float* v, int64_t n, const AdamWScalars& scalars);
double sum_of_squares(const float* x, int64_t n);
}  // namespace reference

}  // namespace lockstep::kernels
