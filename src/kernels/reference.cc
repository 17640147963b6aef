// Scalar references of the row kernels: plain loops, in double where the claim is closeness, in the kernel's
// own float operations where the claim is equal bits.
#include "kernels/dropout.h"

namespace lockstep::kernels::reference {

void dropout(const float* x, int64_t batch, int64_t per_sample, const DropoutKey& key, float* y) {
  for (int64_t sample = 0; sample < batch; ++sample) {
    for (int64_t e = 0; e < per_sample; ++e) {
      const int64_t i = sample * per_sample + e;
      y[i] = key.p == 0.0f
                 ? x[i]
                 : x[i] * dropout_multiplier(make_dropout_stream(key, sample), static_cast<uint64_t>(e));
    }
  }
}

}  // namespace lockstep::kernels::reference
