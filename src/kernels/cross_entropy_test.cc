#include "kernels/cross_entropy.h"

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

constexpr double kEps = 0x1p-24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  int64_t rows, V, ld;
};
constexpr Case kCases[] = {{1, 1, 1},       {3, 2, 5},         {5, 17, 17},
                           {130, 65, 65},   {9, 66, 80},       {3, 2049, 2051},
                           {2, 5003, 5003}, {2, 50304, 50304}, {1, 131073, 131073}};

struct Problem {
  explicit Problem(const Case& c) : logits(c.rows * c.ld), targets(c.rows) {
    testing::fill_normal(logits, static_cast<uint32_t>(c.V), 3.0);
    const RandomStream random(3, Purpose::kTest, 77);
    for (int64_t row = 0; row < c.rows; ++row) {
      targets[row] =
          static_cast<int32_t>(random.below(static_cast<uint64_t>(row), static_cast<uint64_t>(c.V)));
    }
    if (c.rows > 2) targets[1] = kIgnoreTarget;
  }
  GuardedBuffer<float> logits;
  GuardedBuffer<int32_t> targets;
};

// Relative error of a probability: rounding x - max moves the exponential by |x - max| eps, in the numerator
// and, averaged, in the sum; the sum's longest chain is half a chunk of 2048 on one lane plus the chunks; a
// few more roundings.
double probability_error(double range, int64_t V) {
  const double chain = std::fmin(static_cast<double>(V), std::fmax(2048.0, static_cast<double>(V) / 64)) / 2;
  return (2 * range + chain + 64 + 16) * kEps;
}

TEST(CrossEntropy, LossAndGradientAgainstDouble) {
  for (const Case& c : kCases) {
    const Problem problem(c);
    const float scale = 0.37f;
    GuardedBuffer<float> want(c.rows * c.ld), want_loss(c.rows);
    want.copy_from(problem.logits.data());
    reference::cross_entropy_forward_backward(want.data(), c.rows, c.V, c.ld, problem.targets.data(), scale,
                                              want_loss.data());
    testing::for_each_isa([&](const std::string& isa) {
      GuardedBuffer<float> first(c.rows * c.ld);
      testing::for_each_thread_count([&](int threads) {
        GuardedBuffer<float> x(c.rows * c.ld), loss(c.rows), loss_only(c.rows);
        x.copy_from(problem.logits.data());
        cross_entropy_forward(x.data(), c.rows, c.V, c.ld, problem.targets.data(), loss_only.data());
        ASSERT_TRUE(same_bits(x.data(), problem.logits.data(), x.size())) << "forward only reads";
        cross_entropy_forward_backward(x.data(), c.rows, c.V, c.ld, problem.targets.data(), scale,
                                       loss.data());
        ASSERT_TRUE(same_bits(loss.data(), loss_only.data(), c.rows));
        if (threads == 1) first.copy_from(x.data());
        ASSERT_TRUE(same_bits(x.data(), first.data(), x.size())) << "threads";
      });
      double worst = 0.0;
      GuardedBuffer<float> loss(c.rows);
      cross_entropy_forward(problem.logits.data(), c.rows, c.V, c.ld, problem.targets.data(), loss.data());
      for (int64_t row = 0; row < c.rows; ++row) {
        const float* logits = problem.logits.data() + row * c.ld;
        double high = logits[0], low = logits[0];
        for (int64_t v = 0; v < c.V; ++v) {
          high = std::fmax(high, logits[v]);
          low = std::fmin(low, logits[v]);
        }
        const double error = probability_error(high - low, c.V);
        ASSERT_NEAR(loss[row], want_loss[row], error + 4 * kEps * (std::fabs(want_loss[row]) + high - low));
        for (int64_t v = 0; v < c.ld; ++v) {
          const int64_t i = row * c.ld + v;
          const bool is_target = v == problem.targets[row];
          const double p = std::fabs(double{want[i]} + (is_target ? double{scale} : 0.0));
          const double tolerance = p * error + (is_target ? 2 * kEps * scale : 0.0) + 1.2e-38;
          if (v >= c.V) {
            ASSERT_EQ(first[i], logits[v]) << "padding is left alone";
          } else {
            ASSERT_NEAR(first[i], want[i], tolerance) << isa << " V=" << c.V << " row " << row << " v " << v;
            worst = std::fmax(worst, std::fabs(double{first[i]} - want[i]) / tolerance);
          }
        }
      }
      RecordProperty("error_over_tolerance_" + isa + "_V" + std::to_string(c.V), std::to_string(worst));
    });
  }
}

TEST(CrossEntropy, IgnoredRowsAreZero) {
  const Case c{4, 65, 65};
  Problem problem(c);
  testing::for_each_isa([&](const std::string&) {
    GuardedBuffer<float> x(c.rows * c.ld), loss(c.rows);
    x.copy_from(problem.logits.data());
    cross_entropy_forward_backward(x.data(), c.rows, c.V, c.ld, problem.targets.data(), 1.0f, loss.data());
    EXPECT_EQ(loss[1], 0.0f);
    EXPECT_NE(loss[0], 0.0f);
    for (int64_t v = 0; v < c.V; ++v) EXPECT_EQ(x[c.ld + v], 0.0f);
  });
}

TEST(CrossEntropy, HugeLogitsDoNotOverflow) {
  testing::for_each_isa([&](const std::string&) {
    for (const float shift : {3e4f, -3e4f}) {
      std::vector<float> x(100);
      testing::fill_normal(x, 5, 1.0, shift);
      const int32_t target = 7;
      float loss;
      std::vector<float> want = x;
      float want_loss;
      reference::cross_entropy_forward_backward(want.data(), 1, 100, 100, &target, 1.0f, &want_loss);
      cross_entropy_forward_backward(x.data(), 1, 100, 100, &target, 1.0f, &loss);
      EXPECT_NEAR(loss, want_loss, probability_error(20, 100) + 40 * kEps);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(x[i], want[i], probability_error(20, 100) * std::fabs(want[i]) + 2 * kEps);
      }
    }
  });
}

// Logits of -infinity (masked classes) have probability 0, also when they fill whole chunks at either end and
// the rest is far below 0.
TEST(CrossEntropy, MaskedClasses) {
  const int64_t V = 9000;
  testing::for_each_isa([&](const std::string&) {
    for (const int64_t begin : {0, 4500}) {
      std::vector<float> x(static_cast<size_t>(V));
      testing::fill_normal(x, 5, 1.0, -300.0);
      for (int64_t v = begin; v < begin + 4500; ++v) x[static_cast<size_t>(v)] = -kInfinity;
      const auto target = static_cast<int32_t>(begin == 0 ? V - 1 : 0);
      float loss, want_loss;
      std::vector<float> want = x;
      reference::cross_entropy_forward_backward(want.data(), 1, V, V, &target, 1.0f, &want_loss);
      cross_entropy_forward_backward(x.data(), 1, V, V, &target, 1.0f, &loss);
      const double error = probability_error(20, V);
      EXPECT_NEAR(loss, want_loss, error + 4 * kEps * (want_loss + 300));
      for (int64_t v = 0; v < V; ++v) {
        const auto i = static_cast<size_t>(v);
        if (v >= begin && v < begin + 4500) {
          ASSERT_EQ(x[i], 0.0f);
        } else {
          ASSERT_NEAR(x[i], want[i], error * std::fabs(want[i]) + 2 * kEps * (v == target));
        }
      }
    }
  });
}

TEST(CrossEntropy, NonFiniteLogitsAreSeen) {
  testing::for_each_isa([&](const std::string&) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      for (const int64_t where : {0, 63, 64, 4000}) {
        std::vector<float> x(4001);
        testing::fill_normal(x, 5);
        x[static_cast<size_t>(where)] = bad;
        const int32_t target = 1;
        float loss = 0.0f;
        cross_entropy_forward_backward(x.data(), 1, 4001, 4001, &target, 1.0f, &loss);
        EXPECT_FALSE(std::isfinite(loss)) << bad << " at " << where;
      }
    }
  });
}

TEST(CrossEntropy, ReferenceGradientIsTheSlopeOfTheLoss) {
  const int64_t V = 11;
  std::vector<float> logits(static_cast<size_t>(V));
  testing::fill_normal(logits, 8);
  const int32_t target = 4;
  auto loss_at = [&](const std::vector<double>& x) {
    double sum = 0.0;
    for (const double v : x) sum += std::exp(v);
    return std::log(sum) - x[static_cast<size_t>(target)];
  };
  std::vector<float> gradient = logits;
  float loss;
  reference::cross_entropy_forward_backward(gradient.data(), 1, V, V, &target, 2.0f, &loss);
  std::vector<double> x(logits.begin(), logits.end());
  EXPECT_NEAR(loss, loss_at(x), 4 * kEps * std::fabs(loss_at(x)));
  for (size_t i = 0; i < x.size(); ++i) {
    const double h = 1e-4, before = x[i];
    x[i] = before + h;
    const double up = loss_at(x);
    x[i] = before - h;
    const double down = loss_at(x);
    x[i] = before;
    EXPECT_NEAR(gradient[i], 2.0 * (up - down) / (2 * h), h * h + 4 * kEps) << i;
  }
}

}  // namespace
}  // namespace lockstep::kernels
