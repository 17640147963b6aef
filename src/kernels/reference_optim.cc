// Scalar references of the optimizer's arithmetic: the same float operations in the same order, since equal
// bits are the claim.
#include <algorithm>
#include <cmath>

#include "kernels/adamw.h"

namespace lockstep::kernels::reference {

void adamw_update(float* p, const float* g, float* m, float* v, int64_t n, const AdamWScalars& s) {
  for (int64_t i = 0; i < n; ++i) {
    const float grad = g[i] * s.grad_scale;
    m[i] = m[i] + s.beta1_complement * (grad - m[i]);
    v[i] = s.beta2 * v[i] + s.beta2_complement * grad * grad;
    p[i] = p[i] * s.decay - s.step_size * m[i] / (std::sqrt(v[i]) * s.inverse_sqrt_bias2 + s.epsilon);
  }
}

double sum_of_squares(const float* x, int64_t n) {
  double sum = 0.0;
  for (int64_t begin = 0; begin < n; begin += kNormBlock) {
    const int64_t count = std::min(kNormBlock, n - begin);
    float lanes[kNormLanes] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i % kNormLanes] += x[begin + i] * x[begin + i];
    for (int64_t width = kNormLanes / 2; width > 0; width /= 2) {
      for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    }
    sum += static_cast<double>(lanes[0]);
  }
  return sum;
}

}  // namespace lockstep::kernels::reference
