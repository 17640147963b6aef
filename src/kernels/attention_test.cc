#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/testing/for_each_isa.h"
#include "kernels/testing/guarded_buffer.h"

namespace lockstep::kernels {
namespace {

using testing::Edge;
using testing::GuardedBuffer;

constexpr double kU = 0x1.0p-24;      // unit roundoff of float
constexpr double kExpError = 4 * kU;  // exp_up_to_88: 2 ulp

std::vector<uint32_t> make_slots(int64_t batch) {
  std::vector<uint32_t> slots(static_cast<size_t>(batch));
  for (size_t b = 0; b < slots.size(); ++b) slots[b] = static_cast<uint32_t>(17 + 3 * b);
  return slots;
}

DropoutKey make_key(float p, const std::vector<uint32_t>& slots) {
  return {.p = p, .seed = 0xFEDCBA987654321ull, .step = 41, .site = 2, .slots = slots.data()};
}

std::string name_of(const AttentionShape& s, float p) {
  return "B=" + std::to_string(s.B) + " T=" + std::to_string(s.T) + " H=" + std::to_string(s.H) +
         " D=" + std::to_string(s.D) + " p=" + std::to_string(p);
}

/// Inputs and outputs of one shape, each array against guard pages.
struct Arrays {
  explicit Arrays(const AttentionShape& s, int threads = 1, Edge edge = Edge::kEnd)
      : shape(s),
        channels(s.H * s.D),
        qkv(s.B * s.T * 3 * channels, edge),
        out(s.B * s.T * channels, edge),
        lse(s.B * s.H * s.T, edge),
        dout(s.B * s.T * channels, edge),
        dqkv(s.B * s.T * 3 * channels, edge),
        workspace(attention_workspace(s, threads), edge) {
    testing::fill_normal(qkv, 1);
    testing::fill_normal(dout, 2);
  }
  /// Runs both passes on a workspace full of NaN, so that nothing may count on what it holds.
  void run(const DropoutKey& key) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (auto* array : {&out, &lse, &dqkv, &workspace}) std::fill(array->begin(), array->end(), nan);
    causal_attention_forward(shape, qkv.data(), key, out.data(), lse.data(), workspace.data());
    std::fill(workspace.begin(), workspace.end(), nan);
    causal_attention_backward(shape, qkv.data(), out.data(), lse.data(), dout.data(), key, dqkv.data(),
                              workspace.data());
  }
  AttentionShape shape;
  int64_t channels;
  GuardedBuffer<float> qkv, out, lse, dout, dqkv, workspace;
};

/// First-order bounds on the rounding errors of one head. A dot product of n terms errs by at most
/// n u sum |terms|. With A the largest sum of |terms| of a row's scores, a score errs by (D + 2) u A and its
/// distance to the largest by 2 u A more; exp passes absolute errors on as relative ones.
class HeadBounds {
 public:
  HeadBounds(const Arrays& arrays, const DropoutKey& key, int64_t b, int64_t h)
      : shape_(arrays.shape), b_(b), h_(h), a_(arrays) {
    const auto cells = static_cast<size_t>(shape_.T * shape_.T);
    p_.assign(cells, 0.0);
    multiplier_.assign(cells, 1.0);
    if (key.p != 0.0f) {
      const auto stream = make_dropout_stream(key, b);
      for (int64_t i = 0; i < shape_.T; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
          const auto element = static_cast<uint64_t>((h * shape_.T + i) * shape_.T + j);
          multiplier_[at(i, j)] = dropout_multiplier(stream, element);
        }
      }
    }
    for (int64_t i = 0; i < shape_.T; ++i) add_scores(i);
  }

  double lse(int64_t i) const {
    return (error_[row(i)] + kExpError) + static_cast<double>(i + 12) * kU + 6 * kU * std::abs(lse_[row(i)]);
  }
  /// Relative: of normalised probabilities, through the maximum and the total.
  double forward_probability(int64_t i) const {
    return 2 * (error_[row(i)] + kExpError) + static_cast<double>(i + 6) * kU;
  }
  /// Relative: of probabilities recomputed from lse.
  double backward_probability(int64_t i) const {
    return error_[row(i)] + lse(i) + 2 * kU * std::abs(lse_[row(i)]) + kExpError;
  }
  double out(int64_t i, int64_t d) const {
    double weighted = 0;
    for (int64_t j = 0; j <= i; ++j) weighted += p_[at(i, j)] * multiplier_[at(i, j)] * std::abs(v(j, d));
    return (forward_probability(i) + static_cast<double>(i + 6) * kU) * weighted + kTiny;
  }
  /// Bounds of (dq, dk, dv), each (T, D).
  std::vector<std::vector<double>> gradients() const {
    const int64_t T = shape_.T, D = shape_.D;
    std::vector<std::vector<double>> bounds(3, std::vector<double>(static_cast<size_t>(T * D), kTiny));
    std::vector<double> dp(static_cast<size_t>(T)), size(dp);
    for (int64_t i = 0; i < T; ++i) {
      const double rho = backward_probability(i);
      double delta = 0, delta_error = 0;
      for (int64_t d = 0; d < D; ++d) {
        double out_size = 0;
        for (int64_t j = 0; j <= i; ++j) out_size += p_[at(i, j)] * multiplier_[at(i, j)] * std::abs(v(j, d));
        delta_error += std::abs(dout(i, d)) * (out(i, d) + static_cast<double>(D + 1) * kU * out_size);
      }
      for (int64_t j = 0; j <= i; ++j) {
        double sum = 0, abs_sum = 0;
        for (int64_t d = 0; d < D; ++d) {
          sum += dout(i, d) * v(j, d);
          abs_sum += std::abs(dout(i, d) * v(j, d));
        }
        dp[row(j)] = sum * multiplier_[at(i, j)];
        size[row(j)] = abs_sum * multiplier_[at(i, j)];
        delta += p_[at(i, j)] * dp[row(j)];
      }
      for (int64_t j = 0; j <= i; ++j) {
        const double p = p_[at(i, j)], centred = dp[row(j)] - delta, dot = static_cast<double>(D + 4) * kU;
        const double ds_error = p * (rho * std::abs(centred) + dot * size[row(j)] + delta_error +
                                     4 * kU * (std::abs(dp[row(j)]) + std::abs(delta)));
        const double ds_q = ds_error + static_cast<double>(i + 8) * kU * p * std::abs(centred);
        const double ds_k = ds_error + static_cast<double>(T - j + 8) * kU * p * std::abs(centred);
        const double p_v = (rho + static_cast<double>(T - j + 6) * kU) * p * multiplier_[at(i, j)];
        for (int64_t d = 0; d < D; ++d) {
          bounds[0][row(i * D + d)] += scale_ * ds_q * std::abs(k(j, d));
          bounds[1][row(j * D + d)] += scale_ * ds_k * std::abs(q(i, d));
          bounds[2][row(j * D + d)] += p_v * std::abs(dout(i, d));
        }
      }
    }
    return bounds;
  }

 private:
  // exp_up_to_88 gives zero where the exact probability is below 1.2e-38.
  static constexpr double kTiny = 1e-33;

  static size_t row(int64_t i) { return static_cast<size_t>(i); }
  size_t at(int64_t i, int64_t j) const { return static_cast<size_t>(i * shape_.T + j); }
  double input(int64_t i, int64_t part, int64_t d) const {
    return a_.qkv[((b_ * shape_.T + i) * 3 + part) * a_.channels + h_ * shape_.D + d];
  }
  double q(int64_t i, int64_t d) const { return input(i, 0, d); }
  double k(int64_t i, int64_t d) const { return input(i, 1, d); }
  double v(int64_t i, int64_t d) const { return input(i, 2, d); }
  double dout(int64_t i, int64_t d) const {
    return a_.dout[(b_ * shape_.T + i) * a_.channels + h_ * shape_.D + d];
  }

  void add_scores(int64_t i) {
    double largest = -std::numeric_limits<double>::infinity(), size = 0, total = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0, abs_sum = 0;
      for (int64_t d = 0; d < shape_.D; ++d) {
        sum += q(i, d) * k(j, d);
        abs_sum += std::abs(q(i, d) * k(j, d));
      }
      p_[at(i, j)] = scale_ * sum;
      largest = std::max(largest, scale_ * sum);
      size = std::max(size, scale_ * abs_sum);
    }
    for (int64_t j = 0; j <= i; ++j) total += (p_[at(i, j)] = std::exp(p_[at(i, j)] - largest));
    for (int64_t j = 0; j <= i; ++j) p_[at(i, j)] /= total;
    error_.push_back(static_cast<double>(shape_.D + 4) * kU * size);
    lse_.push_back(largest + std::log(total));
  }

  AttentionShape shape_;
  int64_t b_, h_;
  const Arrays& a_;
  double scale_ = 1.0 / std::sqrt(static_cast<double>(shape_.D));
  std::vector<double> p_, multiplier_, error_, lse_;
};

/// Largest error / tolerance of an array; fails where it exceeds 1 or is NaN.
double compare(const char* what, const GuardedBuffer<float>& actual, const std::vector<float>& expected,
               const std::vector<double>& tolerance) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    // The reference itself is rounded once.
    const double allowed = tolerance[i] + kU * std::abs(static_cast<double>(expected[i]));
    const double ratio =
        std::abs(static_cast<double>(actual[static_cast<int64_t>(i)]) - static_cast<double>(expected[i])) /
        allowed;
    if (!(ratio <= worst)) worst = ratio;
    if (!(ratio <= 1.0)) {
      ADD_FAILURE() << what << "[" << i << "] is " << actual[static_cast<int64_t>(i)] << ", expected "
                    << expected[i] << ", tolerance " << allowed;
      return ratio;
    }
  }
  return worst;
}

struct Expected {
  std::vector<float> out, lse, dqkv;
  std::vector<double> out_bound, lse_bound, dqkv_bound;
};

Expected expect(const Arrays& arrays, const DropoutKey& key) {
  const AttentionShape& s = arrays.shape;
  const int64_t C = arrays.channels;
  const auto size = [](const GuardedBuffer<float>& x) { return static_cast<size_t>(x.size()); };
  Expected e{.out = std::vector<float>(size(arrays.out)),
             .lse = std::vector<float>(size(arrays.lse)),
             .dqkv = std::vector<float>(size(arrays.dqkv)),
             .out_bound = std::vector<double>(size(arrays.out)),
             .lse_bound = std::vector<double>(size(arrays.lse)),
             .dqkv_bound = std::vector<double>(size(arrays.dqkv))};
  reference::causal_attention_forward(s, arrays.qkv.data(), key, e.out.data(), e.lse.data());
  reference::causal_attention_backward(s, arrays.qkv.data(), arrays.dout.data(), key, e.dqkv.data());
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t h = 0; h < s.H; ++h) {
      const HeadBounds bounds(arrays, key, b, h);
      const auto gradients = bounds.gradients();
      for (int64_t i = 0; i < s.T; ++i) {
        e.lse_bound[static_cast<size_t>((b * s.H + h) * s.T + i)] = bounds.lse(i);
        for (int64_t d = 0; d < s.D; ++d) {
          const int64_t c = h * s.D + d;
          e.out_bound[static_cast<size_t>((b * s.T + i) * C + c)] = bounds.out(i, d);
          for (int64_t part = 0; part < 3; ++part) {
            e.dqkv_bound[static_cast<size_t>(((b * s.T + i) * 3 + part) * C + c)] =
                gradients[static_cast<size_t>(part)][static_cast<size_t>(i * s.D + d)];
          }
        }
      }
    }
  }
  return e;
}

const std::vector<AttentionShape>& shapes() {
  // Head sizes around the vectors, times around blocks, tiles, key chunks and forward pieces.
  static const std::vector<AttentionShape> all = {
      {1, 1, 1, 1},  {2, 2, 3, 5},   {1, 3, 1, 17},    {2, 63, 2, 33},  {2, 64, 2, 32}, {1, 65, 2, 64},
      {1, 97, 1, 4}, {1, 48, 1, 80}, {1, 100, 1, 128}, {1, 257, 1, 64}, {1, 289, 1, 7}, {1, 801, 1, 16}};
  return all;
}

TEST(Attention, ForwardAndBackwardAreWithinTheRoundingBoundsOfTheReference) {
  double worst[3] = {};
  for (const AttentionShape& shape : shapes()) {
    const auto slots = make_slots(shape.B);
    for (const float p : {0.0f, 0.3f}) {
      SCOPED_TRACE(name_of(shape, p));
      const auto key = make_key(p, slots);
      for (const Edge edge : {Edge::kEnd, Edge::kStart}) {
        Arrays arrays(shape, 2, edge);
        const Expected expected = expect(arrays, key);
        testing::for_each_isa([&](const std::string&) {
          set_thread_count(2);
          arrays.run(key);
          worst[0] = std::max(worst[0], compare("out", arrays.out, expected.out, expected.out_bound));
          worst[1] = std::max(worst[1], compare("lse", arrays.lse, expected.lse, expected.lse_bound));
          worst[2] = std::max(worst[2], compare("dqkv", arrays.dqkv, expected.dqkv, expected.dqkv_bound));
        });
        if (HasFatalFailure() || HasNonfatalFailure()) return;
      }
    }
  }
  for (int i = 0; i < 3; ++i) {
    RecordProperty(std::string("error_by_tolerance_") + "ole"[i], std::to_string(worst[i]));
    EXPECT_GT(worst[i], 1e-4) << "a tolerance this far above the errors finds nothing";
  }
  std::printf("error / tolerance: out %.3f, lse %.3f, dqkv %.3f\n", worst[0], worst[1], worst[2]);
}

TEST(Attention, BitsDoNotDependOnTheThreadCount) {
  for (const AttentionShape& shape : {AttentionShape{2, 130, 3, 33}, AttentionShape{1, 801, 2, 16}}) {
    const auto slots = make_slots(shape.B);
    for (const float p : {0.0f, 0.25f}) {
      const auto key = make_key(p, slots);
      SCOPED_TRACE(name_of(shape, p));
      testing::for_each_isa([&](const std::string&) {
        set_thread_count(1);
        Arrays one(shape, 1);
        one.run(key);
        testing::for_each_thread_count([&](int threads) {
          Arrays many(shape, threads);
          many.run(key);
          EXPECT_TRUE(testing::same_bits(many.out.data(), one.out.data(), one.out.size()));
          EXPECT_TRUE(testing::same_bits(many.lse.data(), one.lse.data(), one.lse.size()));
          EXPECT_TRUE(testing::same_bits(many.dqkv.data(), one.dqkv.data(), one.dqkv.size()));
        });
      });
    }
  }
}

TEST(Attention, TheFutureIsNotSeen) {
  const AttentionShape shape{1, 150, 2, 20};
  testing::for_each_isa([&](const std::string&) {
    set_thread_count(2);
    Arrays before(shape, 2), after(shape, 2);
    before.run({});
    for (const int64_t t : {1, 37, 64, 149}) {
      after.qkv.copy_from(before.qkv.data());
      for (int64_t i = t * 3 * after.channels; i < after.qkv.size(); ++i) after.qkv[i] += 1.0f;
      after.run({});
      EXPECT_TRUE(testing::same_bits(after.out.data(), before.out.data(), t * after.channels)) << "t=" << t;
      EXPECT_FALSE(testing::same_bits(after.out.data(), before.out.data(), (t + 1) * after.channels));
    }
  });
}

TEST(Attention, DroppedProbabilitiesAreTheReferencesAndKeptOnesAreScaled) {
  // Values that are unit vectors lay the probabilities open: out[i, d] is the probability of key d.
  const AttentionShape shape{2, 33, 3, 33};
  const auto slots = make_slots(shape.B);
  const auto key = make_key(0.4f, slots);
  testing::for_each_isa([&](const std::string&) {
    set_thread_count(2);
    Arrays plain(shape, 2), dropped(shape, 2);
    for (Arrays* arrays : {&plain, &dropped}) {
      for (int64_t row = 0; row < shape.B * shape.T; ++row) {
        for (int64_t c = 0; c < arrays->channels; ++c) {
          arrays->qkv[(row * 3 + 2) * arrays->channels + c] = c % shape.D == row % shape.T ? 1.0f : 0.0f;
        }
      }
    }
    plain.run({});
    dropped.run(key);
    int64_t kept = 0, seen = 0;
    for (int64_t b = 0; b < shape.B; ++b) {
      const auto stream = make_dropout_stream(key, b);
      for (int64_t h = 0; h < shape.H; ++h) {
        for (int64_t i = 0; i < shape.T; ++i) {
          for (int64_t j = 0; j <= i; ++j) {
            const int64_t at = (b * shape.T + i) * plain.channels + h * shape.D + j;
            const float multiplier =
                dropout_multiplier(stream, static_cast<uint64_t>((h * shape.T + i) * shape.T + j));
            // Both divide by the total last: they differ by the rounding of two products.
            EXPECT_NEAR(dropped.out[at], plain.out[at] * multiplier, 4 * kU * dropped.out[at]);
            kept += multiplier != 0.0f;
            ++seen;
          }
        }
      }
    }
    EXPECT_GT(kept, seen / 2);
    EXPECT_LT(kept, seen * 7 / 10);
  });
}

TEST(Attention, LargeScoresDoNotOverflow) {
  // Scores reach 1e12 and differ by at least 1e9: each row attends to its best key alone, exactly.
  const AttentionShape shape{1, 300, 1, 4};
  testing::for_each_isa([&](const std::string&) {
    set_thread_count(1);
    Arrays a(shape);
    std::vector<int64_t> best(static_cast<size_t>(shape.T));
    for (int64_t i = 0; i < shape.T; ++i) {
      float* row = a.qkv.data() + i * 12;
      for (int c = 0; c < 8; ++c) row[c] = 0.0f;
      row[0] = 1e6f;
      row[4] = 1e4f * static_cast<float>(i * 127 % 301 - 150);
      const int64_t before = i == 0 ? 0 : best[static_cast<size_t>(i - 1)];
      best[static_cast<size_t>(i)] = row[4] > a.qkv[before * 12 + 4] ? i : before;
    }
    a.run({});
    std::vector<float> dv(static_cast<size_t>(shape.T * 4), 0.0f);
    for (int64_t i = 0; i < shape.T; ++i) {
      const int64_t j = best[static_cast<size_t>(i)];
      EXPECT_TRUE(testing::same_bits(&a.out[i * 4], &a.qkv[j * 12 + 8], 4)) << "row " << i;
      EXPECT_EQ(a.lse[i], 0.5f * 1e6f * a.qkv[j * 12 + 4]) << "row " << i;
      for (int64_t d = 0; d < 4; ++d) dv[static_cast<size_t>(j * 4 + d)] += a.dout[i * 4 + d];
    }
    for (int64_t i = 0; i < a.dqkv.size(); ++i) ASSERT_TRUE(std::isfinite(a.dqkv[i])) << i;
    for (int64_t j = 0; j < shape.T; ++j) {
      for (int64_t d = 0; d < 4; ++d) {
        // A sum of at most T terms below 5.
        EXPECT_NEAR(a.dqkv[j * 12 + 8 + d], dv[static_cast<size_t>(j * 4 + d)], 300 * 300 * 5 * kU);
      }
    }
  });
}

TEST(Attention, NaNIsNeverHidden) {
  const AttentionShape shape{1, 70, 1, 8};
  testing::for_each_isa([&](const std::string&) {
    set_thread_count(1);
    for (int64_t part = 0; part < 3; ++part) {
      Arrays a(shape);
      a.qkv[(40 * 3 + part) * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
      a.run({});
      EXPECT_TRUE(std::isnan(a.out[40 * 8 + 3])) << "part " << part;
      EXPECT_EQ(std::isnan(a.out[69 * 8 + 3]), part > 0) << "part " << part;
      EXPECT_FALSE(std::isnan(a.out[3 * 8 + 3]));
      EXPECT_TRUE(std::isnan(a.dqkv[40 * 3 * 8])) << "part " << part;
    }
  });
}

TEST(Attention, DecodingEqualsTheLastRow) {
  for (const AttentionShape& shape : {AttentionShape{2, 1, 1, 1}, AttentionShape{1, 5, 2, 17},
                                      AttentionShape{2, 70, 3, 64}, AttentionShape{1, 600, 2, 33}}) {
    SCOPED_TRACE(name_of(shape, 0));
    const int64_t capacity = shape.T + 3;
    testing::for_each_isa([&](const std::string&) {
      set_thread_count(2);
      Arrays a(shape, 2);
      const Expected expected = expect(a, {});
      const int64_t C = a.channels, heads = shape.B * shape.H;
      // The cache ends right behind the last position of the last head; elsewhere what follows is NaN.
      const int64_t cached = ((heads - 1) * capacity + shape.T) * shape.D;
      GuardedBuffer<float> keys(cached), values(cached), out(shape.B * C), q(shape.B * C);
      for (auto* cache : {&keys, &values}) {
        std::fill(cache->begin(), cache->end(), std::numeric_limits<float>::quiet_NaN());
      }
      for (int64_t b = 0; b < shape.B; ++b) {
        for (int64_t h = 0; h < shape.H; ++h) {
          for (int64_t t = 0; t < shape.T; ++t) {
            for (int64_t d = 0; d < shape.D; ++d) {
              const int64_t from = (b * shape.T + t) * 3 * C + h * shape.D + d;
              const int64_t to = ((b * shape.H + h) * capacity + t) * shape.D + d;
              keys[to] = a.qkv[from + C];
              values[to] = a.qkv[from + 2 * C];
              if (t == shape.T - 1) q[b * C + h * shape.D + d] = a.qkv[from];
            }
          }
        }
      }
      decode_attention({shape.B, shape.H, shape.D, capacity, shape.T}, q.data(), C, keys.data(),
                       values.data(), out.data(), C);
      for (int64_t b = 0; b < shape.B; ++b) {
        for (int64_t c = 0; c < C; ++c) {
          const auto at = static_cast<size_t>((b * shape.T + shape.T - 1) * C + c);
          EXPECT_NEAR(out[b * C + c], expected.out[at],
                      expected.out_bound[at] + kU * std::abs(expected.out[at]));
        }
      }
    });
  }
}

}  // namespace
}  // namespace lockstep::kernels
