#include "kernels/layer_norm.h"

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
constexpr float kEpsilon = 1e-5f;
constexpr int64_t kWidths[] = {1, 5, 17, 127, 384, 768, 1600};

// Additions in the longest chain of a sum over a row: the narrowest target has four accumulators of one lane.
double chain(int64_t C) {
  return static_cast<double>(C) / 4 + 10;
}

struct Forward {
  explicit Forward(int64_t rows, int64_t C) : y(rows * C), mean(rows), rstd(rows) {}
  GuardedBuffer<float> y, mean, rstd;
};

// Tolerances from the row: the mean is off by chain * eps * mean |x|, which moves every y; rstd by chain *
// eps.
void expect_close_to_reference(const Forward& got, const float* x, const float* w, const float* b,
                               int64_t rows, int64_t C) {
  Forward want(rows, C);
  reference::layer_norm_forward(x, w, b, rows, C, kEpsilon, want.y.data(), want.mean.data(),
                                want.rstd.data());
  double worst = 0.0;
  for (int64_t row = 0; row < rows; ++row) {
    double size = 0.0;
    for (int64_t c = 0; c < C; ++c) size += std::fabs(x[row * C + c]) / static_cast<double>(C);
    const double mean_error = chain(C) * kEps * size, r = want.rstd[row];
    // The shifted mean adds its square to the variance.
    const double rstd_error = chain(C) * kEps + mean_error * mean_error * r * r;
    ASSERT_NEAR(got.mean[row], want.mean[row], mean_error);
    ASSERT_NEAR(got.rstd[row], r, r * rstd_error);
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = row * C + c;
      const double xhat = (x[i] - double{want.mean[row]}) * r;
      const double tolerance =
          std::fabs(w[c]) * (r * mean_error + std::fabs(xhat) * (rstd_error + 4 * kEps)) +
          2 * kEps * std::fabs(want.y[i]) + 1e-30;
      ASSERT_NEAR(got.y[i], want.y[i], tolerance) << "row " << row << " c " << c << " C=" << C;
      worst = std::fmax(worst, std::fabs(got.y[i] - want.y[i]) / tolerance);
    }
  }
  ::testing::Test::RecordProperty("error_over_tolerance_C" + std::to_string(C), std::to_string(worst));
}

TEST(LayerNorm, ForwardAgainstDouble) {
  testing::for_each_isa([&](const std::string&) {
    for (const int64_t C : kWidths) {
      for (const double shift : {0.0, 100.0}) {
        const int64_t rows = 7;
        GuardedBuffer<float> x(rows * C), w(C), b(C);
        testing::fill_normal(x, static_cast<uint32_t>(C), 2.0, shift);
        testing::fill_normal(w, 1, 0.5, 1.0);
        testing::fill_normal(b, 2);
        for (const float* bias : {static_cast<const float*>(nullptr), static_cast<const float*>(b.data())}) {
          Forward got(rows, C);
          layer_norm_forward(x.data(), w.data(), bias, rows, C, kEpsilon, got.y.data(), got.mean.data(),
                             got.rstd.data());
          expect_close_to_reference(got, x.data(), w.data(), bias, rows, C);
          GuardedBuffer<float> again(rows * C);
          layer_norm_apply(x.data(), got.mean.data(), got.rstd.data(), w.data(), bias, rows, C, again.data());
          ASSERT_TRUE(same_bits(again.data(), got.y.data(), rows * C));
        }
      }
    }
  });
}

TEST(LayerNorm, ConstantRowsGiveTheBias) {
  testing::for_each_isa([&](const std::string&) {
    std::vector<float> x(64, 0.25f), w(64, 3.0f), b(64), y(64);
    testing::fill_normal(b, 1);
    float mean, rstd;
    layer_norm_forward(x.data(), w.data(), b.data(), 1, 64, kEpsilon, y.data(), &mean, &rstd);
    EXPECT_EQ(mean, 0.25f);
    EXPECT_TRUE(same_bits(y.data(), b.data(), 64));
  });
}

TEST(LayerNorm, NaNMakesItsRowNaNOnly) {
  testing::for_each_isa([&](const std::string&) {
    const int64_t C = 37;
    std::vector<float> x(static_cast<size_t>(2 * C)), w(static_cast<size_t>(C), 1.0f), y(x.size());
    testing::fill_normal(x, 1);
    x[static_cast<size_t>(C - 1)] = std::numeric_limits<float>::quiet_NaN();
    float mean[2], rstd[2];
    layer_norm_forward(x.data(), w.data(), nullptr, 2, C, kEpsilon, y.data(), mean, rstd);
    for (int64_t c = 0; c < C; ++c) {
      EXPECT_TRUE(std::isnan(y[static_cast<size_t>(c)]));
      EXPECT_FALSE(std::isnan(y[static_cast<size_t>(C + c)]));
    }
  });
}

// The fused form is the residual addition followed by the norm: same bits as the two done apart.
TEST(LayerNorm, ResidualFormEqualsItsParts) {
  const std::vector<uint32_t> slots{11, 12, 13};
  const int64_t B = 3, T = 3, rows = B * T;
  testing::for_each_isa([&](const std::string&) {
    for (const int64_t C : kWidths) {
      GuardedBuffer<float> x(rows * C), delta(rows * C), delta_bias(C), w(C), b(C);
      testing::fill_normal(x, 1);
      testing::fill_normal(delta, 2);
      testing::fill_normal(delta_bias, 3);
      testing::fill_normal(w, 4, 0.5, 1.0);
      testing::fill_normal(b, 5);
      for (const float p : {0.0f, 0.2f}) {
        for (const bool with_bias : {false, true}) {
          const DropoutKey key{.p = p, .seed = 99, .step = 4, .site = 2, .slots = slots.data()};
          std::vector<float> dropped(static_cast<size_t>(rows * C)), want_sum(dropped.size());
          for (int64_t i = 0; i < rows * C; ++i) {
            dropped[static_cast<size_t>(i)] = delta[i] + (with_bias ? delta_bias[i % C] : 0.0f);
          }
          reference::dropout(dropped.data(), B, T * C, key, dropped.data());
          for (int64_t i = 0; i < rows * C; ++i) {
            want_sum[static_cast<size_t>(i)] = x[i] + dropped[static_cast<size_t>(i)];
          }
          Forward want(rows, C), got(rows, C);
          layer_norm_forward(want_sum.data(), w.data(), b.data(), rows, C, kEpsilon, want.y.data(),
                             want.mean.data(), want.rstd.data());
          GuardedBuffer<float> sum(rows * C);
          sum.copy_from(x.data());  // in place
          testing::for_each_thread_count([&](int threads) {
            const float* input = threads == 1 ? sum.data() : x.data();
            residual_layer_norm_forward(input, delta.data(), with_bias ? delta_bias.data() : nullptr,
                                        w.data(), b.data(), rows, C, kEpsilon, key, T, sum.data(),
                                        got.y.data(), got.mean.data(), got.rstd.data());
            ASSERT_TRUE(same_bits(sum.data(), want_sum.data(), rows * C)) << "C=" << C << " p=" << p;
            ASSERT_TRUE(same_bits(got.y.data(), want.y.data(), rows * C)) << "C=" << C << " p=" << p;
            ASSERT_TRUE(same_bits(got.mean.data(), want.mean.data(), rows));
            ASSERT_TRUE(same_bits(got.rstd.data(), want.rstd.data(), rows));
          });
        }
      }
    }
  });
}

struct BackwardCase {
  int64_t rows, C;
};
constexpr BackwardCase kBackward[] = {{1, 1}, {3, 5}, {4, 17}, {37, 127}, {70, 384}, {33, 768}, {5, 1600}};

struct Inputs {
  Inputs(int64_t rows, int64_t C) : dy(rows * C), x(rows * C), w(C), b(C), forward(rows, C) {
    testing::fill_normal(dy, 1);
    testing::fill_normal(x, 2, 1.5, 0.3);
    testing::fill_normal(w, 3, 0.5, 1.0);
    testing::fill_normal(b, 4);
    reference::layer_norm_forward(x.data(), w.data(), b.data(), rows, C, kEpsilon, forward.y.data(),
                                  forward.mean.data(), forward.rstd.data());
  }
  GuardedBuffer<float> dy, x, w, b;
  Forward forward;
};

void expect_gradients_close(const Inputs& in, int64_t rows, int64_t C, const float* dx, const float* want_dx,
                            const float* dw, const float* want_dw, const float* db, const float* want_db) {
  std::vector<double> dw_size(static_cast<size_t>(C)), db_size(static_cast<size_t>(C));
  for (int64_t row = 0; row < rows; ++row) {
    const double r = in.forward.rstd[row];
    double a = 0.0, s = 0.0;
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = row * C + c;
      const double g = std::fabs(in.dy[i] * in.w[c]);
      const double xhat = std::fabs((in.x[i] - double{in.forward.mean[row]}) * r);
      a += g / static_cast<double>(C);
      s += g * xhat / static_cast<double>(C);
      dw_size[static_cast<size_t>(c)] += std::fabs(in.dy[i]) * xhat;
      db_size[static_cast<size_t>(c)] += std::fabs(in.dy[i]);
    }
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = row * C + c;
      const double xhat = std::fabs((in.x[i] - double{in.forward.mean[row]}) * r);
      const double terms = std::fabs(in.dy[i] * in.w[c]) + a + xhat * s;
      const double tolerance = r * terms * (chain(C) + 8) * kEps + 2 * kEps * std::fabs(want_dx[i]);
      ASSERT_NEAR(dx[i], want_dx[i], tolerance) << "dx row " << row << " c " << c;
    }
  }
  // Rows are added one after the other within blocks of 32, then the blocks.
  const double additions = 32 + static_cast<double>(rows) / 32 + 8;
  for (int64_t c = 0; c < C; ++c) {
    const auto i = static_cast<size_t>(c);
    ASSERT_NEAR(dw[c], want_dw[c], additions * kEps * (dw_size[i] + std::fabs(want_dw[c]) + 1)) << "dw " << c;
    ASSERT_NEAR(db[c], want_db[c], additions * kEps * (db_size[i] + std::fabs(want_db[c]) + 1)) << "db " << c;
  }
}

TEST(LayerNorm, BackwardAgainstDouble) {
  for (const auto& [rows, C] : kBackward) {
    const Inputs in(rows, C);
    GuardedBuffer<float> dx_before(rows * C), grad_before(C);
    testing::fill_normal(dx_before, 7);
    testing::fill_normal(grad_before, 8);
    for (const float beta : {0.0f, 1.0f}) {
      GuardedBuffer<float> want_dx(rows * C), want_dw(C), want_db(C);
      want_dx.copy_from(dx_before.data());
      want_dw.copy_from(grad_before.data());
      want_db.copy_from(grad_before.data());
      reference::layer_norm_backward(in.dy.data(), in.x.data(), in.forward.mean.data(),
                                     in.forward.rstd.data(), in.w.data(), rows, C, beta, want_dx.data(), beta,
                                     want_dw.data(), want_db.data());
      testing::for_each_isa([&](const std::string&) {
        GuardedBuffer<float> workspace(layer_norm_backward_workspace(rows, C));
        GuardedBuffer<float> first(rows * C), first_dw(C);
        testing::for_each_thread_count([&](int threads) {
          GuardedBuffer<float> dx(rows * C), dw(C), db(C), y(rows * C), want_y(rows * C);
          dx.copy_from(dx_before.data());
          dw.copy_from(grad_before.data());
          db.copy_from(grad_before.data());
          layer_norm_backward(in.dy.data(), in.x.data(), in.forward.mean.data(), in.forward.rstd.data(),
                              in.w.data(), in.b.data(), rows, C, beta, dx.data(), beta, dw.data(), db.data(),
                              threads == 2 ? nullptr : y.data(), workspace.data());
          expect_gradients_close(in, rows, C, dx.data(), want_dx.data(), dw.data(), want_dw.data(), db.data(),
                                 want_db.data());
          if (threads == 1) {
            first.copy_from(dx.data());
            first_dw.copy_from(dw.data());
          }
          ASSERT_TRUE(same_bits(dx.data(), first.data(), rows * C));
          ASSERT_TRUE(same_bits(dw.data(), first_dw.data(), C));
          layer_norm_apply(in.x.data(), in.forward.mean.data(), in.forward.rstd.data(), in.w.data(),
                           in.b.data(), rows, C, want_y.data());
          if (threads != 2) {
            ASSERT_TRUE(same_bits(y.data(), want_y.data(), rows * C)) << "recomputed y";
          }
        });
      });
    }
  }
}

TEST(LayerNorm, BackwardInPlaceAndWithoutBias) {
  const int64_t rows = 37, C = 127;
  const Inputs in(rows, C);
  testing::for_each_isa([&](const std::string&) {
    GuardedBuffer<float> workspace(layer_norm_backward_workspace(rows, C));
    GuardedBuffer<float> dx(rows * C), dw(C), db(C), in_place(rows * C), dw_only(C);
    layer_norm_backward(in.dy.data(), in.x.data(), in.forward.mean.data(), in.forward.rstd.data(),
                        in.w.data(), in.b.data(), rows, C, 0.0f, dx.data(), 0.0f, dw.data(), db.data(),
                        nullptr, workspace.data());
    in_place.copy_from(in.dy.data());
    layer_norm_backward(in_place.data(), in.x.data(), in.forward.mean.data(), in.forward.rstd.data(),
                        in.w.data(), nullptr, rows, C, 0.0f, in_place.data(), 0.0f, dw_only.data(), nullptr,
                        nullptr, workspace.data());
    ASSERT_TRUE(same_bits(in_place.data(), dx.data(), rows * C));
    ASSERT_TRUE(same_bits(dw_only.data(), dw.data(), C));
  });
}

// The loss sum(dy * layer_norm(x)) in double, as a function of everything.
double loss(const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& b,
            const float* dy, int64_t rows, int64_t C) {
  double total = 0.0;
  for (int64_t row = 0; row < rows; ++row) {
    const double* xr = x.data() + row * C;
    double mean = 0.0, variance = 0.0;
    for (int64_t c = 0; c < C; ++c) mean += xr[c] / static_cast<double>(C);
    for (int64_t c = 0; c < C; ++c) variance += (xr[c] - mean) * (xr[c] - mean) / static_cast<double>(C);
    for (int64_t c = 0; c < C; ++c) {
      const auto i = static_cast<size_t>(c);
      total += dy[row * C + c] * ((xr[c] - mean) / std::sqrt(variance + kEpsilon) * w[i] + b[i]);
    }
  }
  return total;
}

TEST(LayerNorm, ReferenceGradientsAreSlopes) {
  const int64_t rows = 3, C = 9;
  const Inputs in(rows, C);
  std::vector<double> x(in.x.begin(), in.x.end()), w(in.w.begin(), in.w.end()), b(in.b.begin(), in.b.end());
  std::vector<float> dx(x.size()), dw(w.size()), db(b.size());
  reference::layer_norm_backward(in.dy.data(), in.x.data(), in.forward.mean.data(), in.forward.rstd.data(),
                                 in.w.data(), rows, C, 0.0f, dx.data(), 0.0f, dw.data(), db.data());
  const double h = 1e-4;
  auto check = [&](std::vector<double>& values, const std::vector<float>& gradient) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double before = values[i];
      values[i] = before + h;
      const double up = loss(x, w, b, in.dy.data(), rows, C);
      values[i] = before - h;
      const double down = loss(x, w, b, in.dy.data(), rows, C);
      values[i] = before;
      // Truncation h^2 times third derivatives of order 10; the reference rounds mean, rstd and its result to
      // float (a few eps on terms of order 10).
      ASSERT_NEAR(gradient[i], (up - down) / (2 * h), 10 * h * h + 100 * kEps) << i;
    }
  };
  check(x, dx);
  check(w, dw);
  check(b, db);
}

}  // namespace
}  // namespace lockstep::kernels
