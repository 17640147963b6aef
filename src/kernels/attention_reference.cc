#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention.h"
#include "kernels/dropout.h"

namespace lockstep::kernels::reference {
namespace {

/// One head in double.
class Head {
 public:
  Head(const AttentionShape& shape, const float* qkv, const DropoutKey& key, int64_t b, int64_t h)
      : shape_(shape),
        channels_(shape.H * shape.D),
        q_(qkv + b * shape.T * 3 * channels_ + h * shape.D),
        scale_(1.0 / std::sqrt(static_cast<double>(shape.D))),
        lse_(static_cast<size_t>(shape.T)),
        probabilities_(static_cast<size_t>(shape.T * shape.T)),
        multipliers_(static_cast<size_t>(shape.T * shape.T), 1.0) {
    for (int64_t i = 0; i < shape.T; ++i) softmax_row(i);
    if (key.p == 0.0f) return;
    const DropoutStream stream = make_dropout_stream(key, b);
    for (int64_t i = 0; i < shape.T; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        multipliers_[at(i, j)] =
            dropout_multiplier(stream, static_cast<uint64_t>((h * shape.T + i) * shape.T + j));
      }
    }
  }

  double q(int64_t i, int64_t d) const { return q_[i * 3 * channels_ + d]; }
  double k(int64_t i, int64_t d) const { return q_[i * 3 * channels_ + channels_ + d]; }
  double v(int64_t i, int64_t d) const { return q_[i * 3 * channels_ + 2 * channels_ + d]; }
  double p(int64_t i, int64_t j) const { return probabilities_[at(i, j)]; }
  double multiplier(int64_t i, int64_t j) const { return multipliers_[at(i, j)]; }
  double lse(int64_t i) const { return lse_[static_cast<size_t>(i)]; }
  double scale() const { return scale_; }

 private:
  size_t at(int64_t i, int64_t j) const { return static_cast<size_t>(i * shape_.T + j); }

  void softmax_row(int64_t i) {
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (int64_t d = 0; d < shape_.D; ++d) score += q(i, d) * k(j, d);
      probabilities_[at(i, j)] = score * scale_;
      largest = std::max(largest, score * scale_);
    }
    double total = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double& p_ij = probabilities_[at(i, j)];
      p_ij = std::exp(p_ij - largest);
      total += p_ij;
    }
    for (int64_t j = 0; j <= i; ++j) probabilities_[at(i, j)] /= total;
    lse_[static_cast<size_t>(i)] = largest + std::log(total);
  }

  AttentionShape shape_;
  int64_t channels_;
  const float* q_;
  double scale_;
  std::vector<double> lse_, probabilities_, multipliers_;
};

}  // namespace

void causal_attention_forward(const AttentionShape& shape, const float* qkv, const DropoutKey& key,
                              float* out, float* lse) {
  const int64_t channels = shape.H * shape.D;
  for (int64_t b = 0; b < shape.B; ++b) {
    for (int64_t h = 0; h < shape.H; ++h) {
      const Head head(shape, qkv, key, b, h);
      for (int64_t i = 0; i < shape.T; ++i) {
        lse[(b * shape.H + h) * shape.T + i] = static_cast<float>(head.lse(i));
        for (int64_t d = 0; d < shape.D; ++d) {
          double sum = 0;
          for (int64_t j = 0; j <= i; ++j) sum += head.p(i, j) * head.multiplier(i, j) * head.v(j, d);
          out[(b * shape.T + i) * channels + h * shape.D + d] = static_cast<float>(sum);
        }
      }
    }
  }
}

void causal_attention_backward(const AttentionShape& shape, const float* qkv, const float* dout,
                               const DropoutKey& key, float* dqkv) {
  const int64_t T = shape.T, D = shape.D, channels = shape.H * D;
  std::vector<double> dq, dk, dv, dp(static_cast<size_t>(T));
  for (int64_t b = 0; b < shape.B; ++b) {
    for (int64_t h = 0; h < shape.H; ++h) {
      const Head head(shape, qkv, key, b, h);
      for (auto* gradient : {&dq, &dk, &dv}) gradient->assign(static_cast<size_t>(T * D), 0.0);
      for (int64_t i = 0; i < T; ++i) {
        const float* dout_row = dout + (b * T + i) * channels + h * D;
        double delta = 0;
        for (int64_t j = 0; j <= i; ++j) {
          double sum = 0;
          for (int64_t d = 0; d < D; ++d) {
            sum += dout_row[d] * head.v(j, d);
            dv[static_cast<size_t>(j * D + d)] += head.p(i, j) * head.multiplier(i, j) * dout_row[d];
          }
          dp[static_cast<size_t>(j)] = sum * head.multiplier(i, j);
          delta += head.p(i, j) * dp[static_cast<size_t>(j)];
        }
        for (int64_t j = 0; j <= i; ++j) {
          const double ds = head.p(i, j) * (dp[static_cast<size_t>(j)] - delta) * head.scale();
          for (int64_t d = 0; d < D; ++d) {
            dq[static_cast<size_t>(i * D + d)] += ds * head.k(j, d);
            dk[static_cast<size_t>(j * D + d)] += ds * head.q(i, d);
          }
        }
      }
      for (int64_t i = 0; i < T; ++i) {
        float* row = dqkv + (b * T + i) * 3 * channels + h * D;
        for (int64_t d = 0; d < D; ++d) {
          const auto at = static_cast<size_t>(i * D + d);
          row[d] = static_cast<float>(dq[at]);
          row[channels + d] = static_cast<float>(dk[at]);
          row[2 * channels + d] = static_cast<float>(dv[at]);
        }
      }
    }
  }
}

}  // namespace lockstep::kernels::reference
