// AdamW over the parameter registry: clipping by the global norm, two groups (decay for tensors of two or
// more dimensions), moments owned here as flat buffers. Gradients come in as sums over tokens and are divided
// once.
//
// Everything that needs libm (powers, roots of doubles) is computed once into UpdateNumbers, so that in a
// cluster one rank can compute it and all apply the same bits (kernels/adamw.h).
#pragma once

#include <cstdint>

#include "model/parameters.h"
#include "tensor/buffer.h"

namespace lockstep {

struct AdamWConfig {
  double beta1 = 0.9, beta2 = 0.95;
  double weight_decay = 0.1;
  double epsilon = 1e-8;
  double grad_clip = 1.0;  ///< global L2 norm; 0: no clipping
};

/// All that an update needs besides the tensors; a pure function of the arguments of make_update_numbers.
struct UpdateNumbers {
  double grad_norm = 0.0;  ///< of the mean gradient, before clipping
  double clip_factor = 1.0;
  double learning_rate = 0.0;
  float grad_scale = 0.0f;  ///< clip_factor / tokens
  float step_size = 0.0f, inverse_sqrt_bias2 = 0.0f, decay = 1.0f;
};

/// t >= 1 counts updates. grad_square_sum is the sum of squares of the summed gradient; tokens > 0.
UpdateNumbers make_update_numbers(const AdamWConfig& config, int64_t t, double learning_rate,
                                  double grad_square_sum, int64_t tokens);

class AdamW {
 public:
  AdamW(const ParameterRegistry& registry, const AdamWConfig& config);

  /// Sum of squares of flat gradients, the same bits everywhere.
  double gradient_square_sum(const float* grads);
  void update(const UpdateNumbers& numbers, const float* grads, float* params);

  const AdamWConfig& config() const { return config_; }
  float* first_moment() { return m_.floats(); }
  float* second_moment() { return v_.floats(); }
  const float* first_moment() const { return m_.floats(); }
  const float* second_moment() const { return v_.floats(); }

 private:
  const ParameterRegistry& registry_;
  AdamWConfig config_;
  Buffer m_, v_, workspace_;
};

}  // namespace lockstep
