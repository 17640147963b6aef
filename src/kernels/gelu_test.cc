#include "kernels/gelu.h"

#include <gtest/gtest.h>

#include <bit>
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
// What cutting |x| at 9.9 (tanh form; erf at 12.9 leaves less) leaves: the exponential is 1.2e-37 there; the
// value has 9.9 times that, the derivative 9.9 * 22.6 times.
constexpr double kValueFloor = 2e-36, kSlopeFloor = 3e-35;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Relative error that the exponential inherits from its rounded argument, plus 16 roundings: gelu-inl.h.
double relative_bound(Gelu kind, double x) {
  const double a = std::fmin(std::fabs(x), 14.0);
  const double inherited =
      kind == Gelu::kErf ? 1.25 * a * a : 4.5 * (1.5957691216 * a + 0.0713548163 * a * a * a);
  return (inherited + 16) * kEps;
}

// Finite floats of every exponent and sign, and a dense grid where GELU bends.
std::vector<float> all_kinds_of_floats() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 24593) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(x)) values.push_back(x);
  }
  for (int i = -60000; i <= 60000; ++i) values.push_back(static_cast<float>(i) * 0.00025f);
  return values;
}

TEST(Gelu, ValueAndDerivativeAgainstDouble) {
  const auto x = all_kinds_of_floats();
  const auto n = static_cast<int64_t>(x.size());
  for (const Gelu kind : {Gelu::kErf, Gelu::kTanh}) {
    std::vector<double> value, slope;
    for (const float v : x) {
      value.push_back(reference::gelu(kind, v));
      slope.push_back(reference::gelu_derivative(kind, v));
    }
    testing::for_each_isa([&](const std::string& isa) {
      std::vector<float> act(x.size()), act_again(x.size()), grad(x.size(), 1.0f);
      gelu_forward(kind, x.data(), n, act.data());
      gelu_backward_tile(kind, x.data(), n, {0, 1, 0, n}, grad.data(), act_again.data());
      ASSERT_TRUE(same_bits(act.data(), act_again.data(), n)) << "the recomputed value";
      double worst = 0.0, worst_absolute = 0.0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = x[i], bound = relative_bound(kind, v);
        const double error = std::fabs(act[i] - value[i]);
        const double tolerance = std::fabs(value[i]) * bound + kValueFloor;
        ASSERT_LE(error, tolerance) << "x=" << x[i] << " got " << act[i] << " want " << value[i];
        worst = std::fmax(worst, error / tolerance);
        worst_absolute = std::fmax(worst_absolute, error / std::fmax(1.0, v));
        // The derivative is a sum: its error is relative to the terms, which may cancel.
        const double cdf = v == 0.0 ? 0.5 : value[i] / v;
        const double terms = std::fabs(cdf) + std::fabs(slope[i] - cdf);
        const double slope_tolerance = terms * bound + kSlopeFloor;
        ASSERT_LE(std::fabs(grad[i] - slope[i]), slope_tolerance)
            << "x=" << x[i] << " got " << grad[i] << " want " << slope[i];
      }
      EXPECT_LE(worst_absolute, 2e-7);
      RecordProperty("error_over_tolerance_" + isa, std::to_string(worst));
      RecordProperty("absolute_error_" + isa, std::to_string(worst_absolute * 1e7) + "e-7");
    });
  }
}

TEST(Gelu, ReferenceDerivativeIsTheSlopeOfTheReference) {
  for (const Gelu kind : {Gelu::kErf, Gelu::kTanh}) {
    for (double x = -8.0; x < 8.0; x += 0.0137) {
      const double h = 1e-5;
      const double slope = (reference::gelu(kind, x + h) - reference::gelu(kind, x - h)) / (2 * h);
      // h^2 / 6 times the third derivative (below 2), plus rounding of the difference.
      EXPECT_NEAR(reference::gelu_derivative(kind, x), slope, h * h + 0x1p-52 * 10 / h) << x;
    }
  }
}

TEST(Gelu, SpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float x[] = {nan, kInfinity, -kInfinity, 0.0f, -0.0f, 1e-45f, 3e38f, -3e38f};
  testing::for_each_isa([&](const std::string&) {
    for (const Gelu kind : {Gelu::kErf, Gelu::kTanh}) {
      float act[8], grad[8] = {1, 1, 1, 1, 1, 1, 1, 1};
      gelu_forward(kind, x, 8, act);
      gelu_backward_tile(kind, x, 8, {0, 1, 0, 8}, grad, nullptr);
      EXPECT_TRUE(std::isnan(act[0]));
      EXPECT_TRUE(std::isnan(grad[0]));
      EXPECT_EQ(act[1], kInfinity);
      EXPECT_NEAR(act[2], 0.0f, kValueFloor);
      EXPECT_EQ(act[3], 0.0f);
      EXPECT_EQ(act[4], 0.0f);
      EXPECT_EQ(grad[3], 0.5f);
      EXPECT_EQ(act[6], 3e38f);
      EXPECT_EQ(grad[6], 1.0f);
      EXPECT_NEAR(act[7], 0.0f, kValueFloor);
      EXPECT_NEAR(grad[7], 0.0f, kSlopeFloor);
      EXPECT_EQ(grad[1], 1.0f);
      EXPECT_NEAR(grad[2], 0.0f, kSlopeFloor);
    }
  });
}

// A tile inside a matrix: only the tile changes, the bias is that of its columns, act may be pre.
TEST(Gelu, TilesTouchOnlyTheirPart) {
  const int64_t rows = 5, ld = 41;
  for (const Tile tile : {Tile{0, 5, 0, 41}, Tile{1, 3, 7, 17}, Tile{4, 1, 40, 1}, Tile{2, 2, 3, 33}}) {
    GuardedBuffer<float> start(rows * ld), bias(ld);
    testing::fill_normal(start, 1);
    testing::fill_normal(bias, 2);
    testing::for_each_isa([&](const std::string&) {
      for (const Gelu kind : {Gelu::kErf, Gelu::kTanh}) {
        GuardedBuffer<float> pre(rows * ld), act(rows * ld), in_place(rows * ld), plain(rows * ld);
        pre.copy_from(start.data());
        in_place.copy_from(start.data());
        plain.copy_from(start.data());
        bias_gelu_forward_tile(kind, pre.data(), bias.data(), ld, tile, act.data());
        bias_gelu_forward_tile(kind, in_place.data(), bias.data(), ld, tile, in_place.data());
        bias_tile(plain.data(), bias.data(), ld, tile);
        ASSERT_TRUE(same_bits(plain.data(), pre.data(), pre.size()));
        for (int64_t i = 0; i < rows * ld; ++i) {
          const int64_t row = i / ld, col = i % ld;
          const bool inside =
              row >= tile.row && row < tile.row + tile.rows && col >= tile.col && col < tile.col + tile.cols;
          ASSERT_EQ(pre[i], inside ? start[i] + bias[col] : start[i]);
          ASSERT_EQ(in_place[i], inside ? act[i] : start[i]);
          const double want = inside ? reference::gelu(kind, pre[i]) : 0.0;
          ASSERT_NEAR(act[i], want, std::fabs(want) * relative_bound(kind, pre[i]));
        }
      }
    });
  }
}

TEST(Gelu, ForwardWithoutBiasKeepsTheInputAndThreadsDoNotMatter) {
  const int64_t n = 30011;
  GuardedBuffer<float> x(n), copy(n), act(n), expected(n);
  testing::fill_normal(x, 3, 2.0);
  copy.copy_from(x.data());
  testing::for_each_isa([&](const std::string&) {
    gelu_forward(Gelu::kErf, x.data(), n, expected.data());
    testing::for_each_thread_count([&](int) {
      gelu_forward(Gelu::kErf, x.data(), n, act.data());
      ASSERT_TRUE(same_bits(act.data(), expected.data(), n));
      ASSERT_TRUE(same_bits(x.data(), copy.data(), n));
    });
  });
}

TEST(ColumnSum, AgainstDoubleAndTheSameBitsEverywhere) {
  for (const int64_t rows : {1, 3, 63, 64, 65, 200}) {
    for (const int64_t cols : {1, 5, 17, 127, 384, 1025}) {
      GuardedBuffer<float> dy(rows * cols), before(cols), first(cols);
      testing::fill_normal(dy, static_cast<uint32_t>(rows * cols));
      testing::fill_normal(before, 6);
      GuardedBuffer<float> workspace(column_sum_workspace(rows, cols));
      for (const float beta : {0.0f, 1.0f}) {
        bool have_first = false;
        testing::for_each_isa([&](const std::string&) {
          testing::for_each_thread_count([&](int) {
            GuardedBuffer<float> db(cols);
            db.copy_from(before.data());
            column_sum(dy.data(), rows, cols, beta, db.data(), workspace.data());
            if (!have_first) first.copy_from(db.data());
            have_first = true;
            ASSERT_TRUE(same_bits(db.data(), first.data(), cols)) << rows << " x " << cols;
          });
        });
        for (int64_t c = 0; c < cols; ++c) {
          double sum = beta * double{before[c]}, magnitude = std::fabs(sum);
          for (int64_t r = 0; r < rows; ++r) {
            sum += dy[r * cols + c];
            magnitude += std::fabs(dy[r * cols + c]);
          }
          // At most 64 additions in a block, one more per block.
          const double additions = std::fmin(64.0, double(rows)) + double(rows) / 64 + 2;
          ASSERT_NEAR(first[c], sum, additions * kEps * magnitude) << rows << " x " << cols;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
