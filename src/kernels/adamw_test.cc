#include "kernels/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/testing/for_each_isa.h"
#include "kernels/testing/guarded_buffer.h"

namespace lockstep::kernels {
namespace {

using testing::GuardedBuffer;
using testing::same_bits;

AdamWScalars scalars_of_step(int t) {
  const double beta1 = 0.9, beta2 = 0.95, rate = 6e-4;
  return {.grad_scale = 0.00731f,
          .decay = static_cast<float>(1.0 - rate * 0.1),
          .beta1_complement = static_cast<float>(1.0 - beta1),
          .beta2 = static_cast<float>(beta2),
          .beta2_complement = static_cast<float>(1.0 - beta2),
          .step_size = static_cast<float>(rate / (1.0 - std::pow(beta1, t))),
          .inverse_sqrt_bias2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, t))),
          .epsilon = 1e-8f};
}

struct State {
  std::vector<float> p, g, m, v;
};

// Values of all sizes: ordinary, zero gradients, denormal moments, huge gradients.
State make_state(int64_t n) {
  State s;
  for (auto* x : {&s.p, &s.g, &s.m, &s.v}) x->resize(static_cast<size_t>(n));
  testing::fill_normal(s.p, 1);
  testing::fill_normal(s.g, 2, 10.0);
  testing::fill_normal(s.m, 3, 1e-3);
  testing::fill_normal(s.v, 4, 1e-4);
  for (size_t i = 0; i < s.v.size(); ++i) {
    s.v[i] = std::fabs(s.v[i]);
    if (i % 7 == 3) s.g[i] = 0.0f;
    if (i % 11 == 5) s.m[i] = s.v[i] = 1e-41f;
    if (i % 13 == 6) s.g[i] *= 1e18f;
    if (i % 17 == 8) s.m[i] = s.v[i] = s.g[i] = 0.0f;
  }
  return s;
}

TEST(AdamW, EqualsTheScalarReferenceBitForBit) {
  for (const int64_t n : {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 63, 127, 1000, 8191, 8192, 8193, 30011}) {
    const State start = make_state(n);
    State expected = start;
    for (int t = 1; t <= 3; ++t) {
      reference::adamw_update(expected.p.data(), expected.g.data(), expected.m.data(), expected.v.data(), n,
                              scalars_of_step(t));
    }
    testing::for_each_isa([&](const std::string&) {
      testing::for_each_thread_count([&](int) {
        GuardedBuffer<float> p(n), g(n), m(n), v(n);
        p.copy_from(start.p.data());
        g.copy_from(start.g.data());
        m.copy_from(start.m.data());
        v.copy_from(start.v.data());
        for (int t = 1; t <= 3; ++t) {
          adamw_update(p.data(), g.data(), m.data(), v.data(), n, scalars_of_step(t));
        }
        ASSERT_TRUE(same_bits(p.data(), expected.p.data(), n)) << "p, n=" << n;
        ASSERT_TRUE(same_bits(m.data(), expected.m.data(), n)) << "m, n=" << n;
        ASSERT_TRUE(same_bits(v.data(), expected.v.data(), n)) << "v, n=" << n;
        ASSERT_TRUE(same_bits(g.data(), start.g.data(), n)) << "g is only read";
      });
    });
  }
}

// The inputs above would show a fused multiply-add: it changes some bits of m and v.
TEST(AdamW, TheseInputsTellFusedFromSeparateRounding) {
  const State s = make_state(1000);
  const AdamWScalars k = scalars_of_step(1);
  int different = 0;
  for (size_t i = 0; i < s.p.size(); ++i) {
    const float grad = s.g[i] * k.grad_scale;
    const float separate = s.m[i] + k.beta1_complement * (grad - s.m[i]);
    different += std::fma(k.beta1_complement, grad - s.m[i], s.m[i]) != separate;
  }
  EXPECT_GT(different, 50);
}

// The reference itself against the formula in double.
TEST(AdamW, ReferenceFollowsTheFormula) {
  const int64_t n = 500;
  State s = make_state(n);
  for (auto& g : s.g) g = std::fmod(g, 50.0f);
  State before = s;
  const AdamWScalars k = scalars_of_step(2);
  reference::adamw_update(s.p.data(), s.g.data(), s.m.data(), s.v.data(), n, k);
  for (size_t i = 0; i < s.p.size(); ++i) {
    const double g = double{before.g[i]} * k.grad_scale;
    const double m = (1.0 - k.beta1_complement) * before.m[i] + k.beta1_complement * g;
    const double v = double{k.beta2} * before.v[i] + k.beta2_complement * g * g;
    const double change = k.step_size * m / (std::sqrt(v) * k.inverse_sqrt_bias2 + k.epsilon);
    const double p = double{before.p[i]} * k.decay - change;
    // m: three roundings of terms no larger than |m_old| + |g|; the quotient takes its relative error over.
    const double m_error = 4 * 0x1p-24 * (std::fabs(before.m[i]) + std::fabs(g)) + 1e-44;
    const double denominator = std::sqrt(v) * k.inverse_sqrt_bias2 + k.epsilon;
    const double tolerance = 2 * 0x1p-24 * std::fabs(before.p[i]) + 8 * 0x1p-24 * std::fabs(change) +
                             k.step_size * m_error / denominator;
    EXPECT_NEAR(s.p[i], p, tolerance) << i;
    EXPECT_NEAR(s.m[i], m, m_error) << i;
    EXPECT_NEAR(s.v[i], v, 4 * 0x1p-24 * v + 3e-45) << i;
  }
}

TEST(SumOfSquares, SameBitsOnEveryInstructionSetAndThreadCount) {
  for (const int64_t n : {1, 15, 16, 17, 100, 8191, 8192, 8193, 16385, 100003}) {
    GuardedBuffer<float> x(n);
    testing::fill_normal(x, static_cast<uint32_t>(n));
    std::vector<float> workspace(static_cast<size_t>(sum_of_squares_workspace(n)));
    const double expected = reference::sum_of_squares(x.data(), n);
    double exact = 0.0;
    for (const float value : x) exact += double{value} * double{value};
    // A lane adds at most kNormBlock / kNormLanes squares, then four folds; block sums are added in double.
    constexpr int64_t kSquaresPerLane = kNormBlock / kNormLanes;
    const double tolerance = static_cast<double>(kSquaresPerLane + 5) * 0x1p-24 * exact;
    EXPECT_NEAR(expected, exact, tolerance);
    testing::for_each_isa([&](const std::string&) {
      testing::for_each_thread_count(
          [&](int) { ASSERT_EQ(sum_of_squares(x.data(), n, workspace.data()), expected) << "n=" << n; });
    });
  }
}

TEST(SumOfSquares, NonFiniteValuesSurvive) {
  const int64_t n = 20000;
  std::vector<float> workspace(static_cast<size_t>(sum_of_squares_workspace(n)));
  testing::for_each_isa([&](const std::string&) {
    for (const int64_t where : {0, 17, 8191, 8192, 19999}) {
      std::vector<float> x(static_cast<size_t>(n));
      testing::fill_normal(x, 9);
      x[static_cast<size_t>(where)] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(sum_of_squares(x.data(), n, workspace.data()))) << where;
      x[static_cast<size_t>(where)] = -std::numeric_limits<float>::infinity();
      EXPECT_TRUE(std::isinf(sum_of_squares(x.data(), n, workspace.data()))) << where;
    }
  });
}

TEST(SumOfSquares, NothingIsZero) {
  float workspace[1];
  EXPECT_EQ(sum_of_squares(nullptr, 0, workspace), 0.0);
}

}  // namespace
}  // namespace lockstep::kernels
