#include "optim/adamw.h"

#include <cmath>

#include "base/check.h"
#include "kernels/adamw.h"

namespace lockstep {

UpdateNumbers make_update_numbers(const AdamWConfig& config, int64_t t, double learning_rate,
                                  double grad_square_sum, int64_t tokens) {
  LOCKSTEP_CHECK_GE(t, 1);
  LOCKSTEP_CHECK_GE(tokens, 1);
  constexpr double kClipEpsilon = 1e-6;  // torch.nn.utils.clip_grad_norm_
  const auto token_count = static_cast<double>(tokens), updates = static_cast<double>(t);
  UpdateNumbers numbers;
  numbers.learning_rate = learning_rate;
  numbers.grad_norm = std::sqrt(grad_square_sum) / token_count;
  if (config.grad_clip > 0.0)
    numbers.clip_factor = std::min(1.0, config.grad_clip / (numbers.grad_norm + kClipEpsilon));
  numbers.grad_scale = static_cast<float>(numbers.clip_factor / token_count);
  numbers.step_size = static_cast<float>(learning_rate / (1.0 - std::pow(config.beta1, updates)));
  numbers.inverse_sqrt_bias2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(config.beta2, updates)));
  numbers.decay = static_cast<float>(1.0 - learning_rate * config.weight_decay);
  return numbers;
}

AdamW::AdamW(const ParameterRegistry& registry, const AdamWConfig& config)
    : registry_(registry),
      config_(config),
      m_(static_cast<size_t>(registry.flat_count()) * sizeof(float)),
      v_(static_cast<size_t>(registry.flat_count()) * sizeof(float)),
      workspace_(static_cast<size_t>(kernels::sum_of_squares_workspace(registry.flat_count())) *
                 sizeof(float)) {}

double AdamW::gradient_square_sum(const float* grads) {
  // Padding is zero, so the flat buffer can be summed as one.
  return kernels::sum_of_squares(grads, registry_.flat_count(), workspace_.floats());
}

void AdamW::update(const UpdateNumbers& numbers, const float* grads, float* params) {
  kernels::AdamWScalars scalars{.grad_scale = numbers.grad_scale,
                                .decay = 1.0f,
                                .beta1_complement = static_cast<float>(1.0 - config_.beta1),
                                .beta2 = static_cast<float>(config_.beta2),
                                .beta2_complement = static_cast<float>(1.0 - config_.beta2),
                                .step_size = numbers.step_size,
                                .inverse_sqrt_bias2 = numbers.inverse_sqrt_bias2,
                                .epsilon = static_cast<float>(config_.epsilon)};
  const auto specs = registry_.specs();
  // Neighbours of the same group are one sweep; their padding has zero gradient and stays zero.
  for (size_t begin = 0; begin < specs.size();) {
    size_t end = begin + 1;
    while (end < specs.size() && specs[end].decays == specs[begin].decays) ++end;
    const int64_t first = specs[begin].offset;
    const int64_t last = end < specs.size() ? specs[end].offset : registry_.flat_count();
    scalars.decay = specs[begin].decays ? numbers.decay : 1.0f;
    kernels::adamw_update(params + first, grads + first, m_.floats() + first, v_.floats() + first,
                          last - first, scalars);
    begin = end;
  }
}

}  // namespace lockstep
