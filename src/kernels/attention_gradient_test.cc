// The double reference of attention against an independent forward pass and its central differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention.h"
#include "kernels/testing/for_each_isa.h"

namespace lockstep::kernels {
namespace {

constexpr double kU = 0x1.0p-24;

/// Plain causal attention in double, written from the definition.
std::vector<double> attention(const AttentionShape& s, const std::vector<double>& qkv,
                              const DropoutKey& key) {
  const int64_t C = s.H * s.D;
  std::vector<double> out(static_cast<size_t>(s.B * s.T * C), 0.0);
  const auto in = [&](int64_t b, int64_t t, int64_t part, int64_t c) {
    return qkv[static_cast<size_t>(((b * s.T + t) * 3 + part) * C + c)];
  };
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t h = 0; h < s.H; ++h) {
      for (int64_t i = 0; i < s.T; ++i) {
        double total = 0;
        std::vector<double> weights;
        for (int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (int64_t d = 0; d < s.D; ++d) score += in(b, i, 0, h * s.D + d) * in(b, j, 1, h * s.D + d);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(s.D))));
          total += weights.back();
        }
        for (int64_t j = 0; j <= i; ++j) {
          double weight = weights[static_cast<size_t>(j)] / total;
          if (key.p != 0.0f) {
            const auto element = static_cast<uint64_t>((h * s.T + i) * s.T + j);
            weight *= static_cast<double>(dropout_multiplier(make_dropout_stream(key, b), element));
          }
          for (int64_t d = 0; d < s.D; ++d) {
            out[static_cast<size_t>((b * s.T + i) * C + h * s.D + d)] += weight * in(b, j, 2, h * s.D + d);
          }
        }
      }
    }
  }
  return out;
}

class AttentionReference : public ::testing::TestWithParam<float> {
 protected:
  AttentionReference() {
    testing::fill_normal(qkv_, 5);
    testing::fill_normal(dout_, 6);
  }
  DropoutKey key() const {
    return {.p = GetParam(), .seed = 99, .step = 3, .site = 4, .slots = slots_.data()};
  }
  AttentionShape shape_{2, 6, 2, 3};
  std::vector<float> qkv_ = std::vector<float>(2 * 6 * 18), dout_ = std::vector<float>(2 * 6 * 6);
  std::vector<uint32_t> slots_{4, 11};
};

TEST_P(AttentionReference, ForwardFollowsTheDefinition) {
  std::vector<float> out(dout_.size()), lse(static_cast<size_t>(shape_.B * shape_.H * shape_.T));
  reference::causal_attention_forward(shape_, qkv_.data(), key(), out.data(), lse.data());
  const auto expected = attention(shape_, std::vector<double>(qkv_.begin(), qkv_.end()), key());
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_NEAR(out[i], expected[i], 1.01 * kU * std::abs(expected[i]) + 1e-14) << i;
  }
}

TEST_P(AttentionReference, BackwardEqualsCentralDifferences) {
  std::vector<float> dqkv(qkv_.size());
  reference::causal_attention_backward(shape_, qkv_.data(), dout_.data(), key(), dqkv.data());
  std::vector<double> x(qkv_.begin(), qkv_.end());
  const auto loss = [&] {
    const auto out = attention(shape_, x, key());
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += out[i] * static_cast<double>(dout_[i]);
    return sum;
  };
  constexpr double kStep = 0x1.0p-10;
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto slope = [&](double step) {
      const double centre = x[i];
      x[i] = centre + step;
      const double up = loss();
      x[i] = centre - step;
      const double down = loss();
      x[i] = centre;
      return (up - down) / (2 * step);
    };
    const double wide = slope(kStep), narrow = slope(kStep / 2);
    // The error falls with the square of the step: extrapolating removes that term, and a quarter of the
    // difference bounds what is left. Loss terms are below 100, rounded at 2^-53, divided by the step.
    const double expected = (4 * narrow - wide) / 3;
    const double tolerance =
        std::abs(wide - narrow) / 4 + 100 * 0x1.0p-53 * 16 / kStep + 1.01 * kU * std::abs(expected);
    EXPECT_NEAR(dqkv[i], expected, tolerance) << i;
    largest = std::max(largest, std::abs(expected));
  }
  EXPECT_GT(largest, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Dropout, AttentionReference, ::testing::Values(0.0f, 0.4f));

}  // namespace
}  // namespace lockstep::kernels
