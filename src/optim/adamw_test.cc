#include "optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace lockstep {
namespace {

constexpr GptConfig kConfig{
    .n_layer = 1, .n_head = 1, .n_embd = 5, .block_size = 3, .vocab_size = 7, .bias = true};

TEST(UpdateNumbers, ClipsByTheNormOfTheMean) {
  const AdamWConfig config{.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .grad_clip = 1.0};
  // Sum of squares 400 over 10 tokens: the mean's norm is 2, the factor 1 / (2 + 1e-6).
  const UpdateNumbers numbers = make_update_numbers(config, 1, 1e-3, 400.0, 10);
  EXPECT_DOUBLE_EQ(numbers.grad_norm, 2.0);
  EXPECT_DOUBLE_EQ(numbers.clip_factor, 1.0 / (2.0 + 1e-6));
  EXPECT_EQ(numbers.grad_scale, static_cast<float>(numbers.clip_factor / 10.0));
  EXPECT_EQ(numbers.step_size, static_cast<float>(1e-3 / (1.0 - 0.9)));
  EXPECT_EQ(numbers.inverse_sqrt_bias2, static_cast<float>(1.0 / std::sqrt(1.0 - 0.99)));
  EXPECT_EQ(numbers.decay, static_cast<float>(1.0 - 1e-3 * 0.1));
  // A small gradient is left alone, and grad_clip 0 switches clipping off.
  EXPECT_EQ(make_update_numbers(config, 1, 1e-3, 4.0, 10).clip_factor, 1.0);
  AdamWConfig off = config;
  off.grad_clip = 0.0;
  EXPECT_EQ(make_update_numbers(off, 1, 1e-3, 400.0, 10).clip_factor, 1.0);
}

TEST(AdamW, UpdatesBothGroupsAsTheFormulaSays) {
  const ParameterRegistry registry(kConfig);
  const AdamWConfig config{
      .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.5, .epsilon = 1e-8, .grad_clip = 0.0};
  AdamW adamw(registry, config);
  const auto n = static_cast<size_t>(registry.flat_count());
  Buffer params(n * sizeof(float)), grads(n * sizeof(float));
  std::vector<double> want(n), m(n), v(n);
  const RandomStream random(7, Purpose::kTest);
  for (const ParameterSpec& spec : registry.specs())
    for (auto i = static_cast<size_t>(spec.offset); i < static_cast<size_t>(spec.offset + spec.count); ++i)
      want[i] = params.floats()[i] = static_cast<float>(random.normal(i));
  constexpr double kRate = 0.01;
  for (int64_t t = 1; t <= 3; ++t) {
    for (const ParameterSpec& spec : registry.specs())
      for (auto i = static_cast<size_t>(spec.offset); i < static_cast<size_t>(spec.offset + spec.count); ++i)
        grads.floats()[i] = static_cast<float>(random.normal(i + 1000 * static_cast<size_t>(t)));
    adamw.update(make_update_numbers(config, t, kRate, adamw.gradient_square_sum(grads.floats()), 4),
                 grads.floats(), params.floats());
    for (const ParameterSpec& spec : registry.specs())
      for (auto i = static_cast<size_t>(spec.offset); i < static_cast<size_t>(spec.offset + spec.count);
           ++i) {
        const double g = static_cast<double>(grads.floats()[i]) / 4.0;
        m[i] = 0.8 * m[i] + 0.2 * g;
        v[i] = 0.9 * v[i] + 0.1 * g * g;
        if (spec.shape.size() >= 2) want[i] *= 1.0 - kRate * 0.5;
        want[i] -= kRate * (m[i] / (1.0 - std::pow(0.8, t))) /
                   (std::sqrt(v[i] / (1.0 - std::pow(0.9, t))) + config.epsilon);
      }
  }
  // Three steps of about ten roundings each, on values of up to |want| + 3 * rate.
  for (const ParameterSpec& spec : registry.specs())
    for (auto i = static_cast<size_t>(spec.offset); i < static_cast<size_t>(spec.offset + spec.count); ++i)
      ASSERT_NEAR(params.floats()[i], want[i], 30 * 0x1p-24 * (std::abs(want[i]) + 0.03)) << spec.name;
  // Padding stays zero.
  for (const ParameterSpec& spec : registry.specs())
    for (int64_t i = spec.offset + spec.count; i < spec.offset + aligned_floats(spec.count); ++i)
      ASSERT_EQ(params.floats()[i], 0.0f);
}

}  // namespace
}  // namespace lockstep
