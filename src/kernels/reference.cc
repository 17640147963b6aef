// Scalar references of the row kernels: plain loops, in double where the claim is closeness, in the kernel's
// own float operations where the claim is equal bits.
#include <cmath>
#include <vector>

#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/layer_norm.h"

namespace lockstep::kernels::reference {

void dropout(const float* x, int64_t batch, int64_t per_sample, const DropoutKey& key, float* y) {
  for (int64_t sample = 0; sample < batch; ++sample) {
    for (int64_t e = 0; e < per_sample; ++e) {
      const int64_t i = sample * per_sample + e;
      y[i] = key.p == 0.0f
                 ? x[i]
                 : x[i] * dropout_multiplier(make_dropout_stream(key, sample), static_cast<uint64_t>(e));
    }
  }
}

void embedding_forward(const int32_t* tokens, const float* wte, const float* wpe, int64_t B, int64_t T,
                       int64_t C, const DropoutKey& key, float* out) {
  for (int64_t row = 0; row < B * T; ++row) {
    for (int64_t c = 0; c < C; ++c) out[row * C + c] = wte[tokens[row] * C + c] + wpe[row % T * C + c];
  }
  reference::dropout(out, B, T * C, key, out);
}

void embedding_backward(const int32_t* tokens, const float* dout, int64_t B, int64_t T, int64_t C,
                        float* dwte, float beta, float* dwpe, int64_t wpe_rows) {
  if (beta == 0.0f) {
    for (int64_t i = 0; i < wpe_rows * C; ++i) dwpe[i] = 0.0f;
  }
  for (int64_t row = 0; row < B * T; ++row) {
    for (int64_t c = 0; c < C; ++c) {
      dwte[tokens[row] * C + c] += dout[row * C + c];
      dwpe[row % T * C + c] += dout[row * C + c];
    }
  }
}

double gelu(Gelu kind, double x) {
  if (kind == Gelu::kErf) return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-2.0 * u));  // x (1 + tanh u) / 2 without cancellation
}

double gelu_derivative(Gelu kind, double x) {
  if (kind == Gelu::kErf) {
    return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI);
  }
  const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
  const double du = std::sqrt(2.0 / M_PI) * (1.0 + 3.0 * 0.044715 * x * x);
  const double s = 1.0 / (1.0 + std::exp(-2.0 * u));
  const double complement = 1.0 / (1.0 + std::exp(2.0 * u));
  return s + x * s * complement * 2.0 * du;
}

void layer_norm_forward(const float* x, const float* w, const float* b, int64_t rows, int64_t C,
                        float epsilon, float* y, float* mean, float* rstd) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* xr = x + row * C;
    double sum = 0.0, squares = 0.0;
    for (int64_t c = 0; c < C; ++c) sum += xr[c];
    const double mu = sum / static_cast<double>(C);
    for (int64_t c = 0; c < C; ++c) squares += (xr[c] - mu) * (xr[c] - mu);
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(C) + epsilon);
    for (int64_t c = 0; c < C; ++c) {
      y[row * C + c] = static_cast<float>((xr[c] - mu) * r * w[c] + (b != nullptr ? b[c] : 0.0f));
    }
    mean[row] = static_cast<float>(mu);
    rstd[row] = static_cast<float>(r);
  }
}

void layer_norm_backward(const float* dy, const float* x, const float* mean, const float* rstd,
                         const float* w, int64_t rows, int64_t C, float dx_beta, float* dx, float grad_beta,
                         float* dw, float* db) {
  const auto columns = static_cast<size_t>(C);
  std::vector<double> dw_sum(columns, 0.0), db_sum(columns, 0.0);
  for (int64_t row = 0; row < rows; ++row) {
    const double mu = mean[row], r = rstd[row];
    double s1 = 0.0, s2 = 0.0;
    for (int64_t c = 0; c < C; ++c) {
      const double g = dy[row * C + c], xhat = (x[row * C + c] - mu) * r;
      s1 += g * w[c];
      s2 += g * w[c] * xhat;
      dw_sum[static_cast<size_t>(c)] += g * xhat;
      db_sum[static_cast<size_t>(c)] += g;
    }
    for (int64_t c = 0; c < C; ++c) {
      const double g = dy[row * C + c], xhat = (x[row * C + c] - mu) * r;
      const double grad = r * (g * w[c] - s1 / static_cast<double>(C) - xhat * s2 / static_cast<double>(C));
      float& out = dx[row * C + c];
      out = static_cast<float>((dx_beta != 0.0f ? double{out} : 0.0) + grad);
    }
  }
  for (int64_t c = 0; c < C; ++c) {
    const auto i = static_cast<size_t>(c);
    dw[c] = static_cast<float>((grad_beta != 0.0f ? double{dw[c]} : 0.0) + dw_sum[i]);
    if (db != nullptr) db[c] = static_cast<float>((grad_beta != 0.0f ? double{db[c]} : 0.0) + db_sum[i]);
  }
}

void cross_entropy_forward_backward(float* logits, int64_t rows, int64_t V, int64_t ld,
                                    const int32_t* targets, float scale, float* losses) {
  for (int64_t row = 0; row < rows; ++row) {
    float* x = logits + row * ld;
    const int32_t target = targets[row];
    if (target == kIgnoreTarget) {
      for (int64_t v = 0; v < V; ++v) x[v] = 0.0f;
      losses[row] = 0.0f;
      continue;
    }
    double largest = x[0], sum = 0.0;
    for (int64_t v = 1; v < V; ++v) largest = x[v] > largest ? double{x[v]} : largest;
    for (int64_t v = 0; v < V; ++v) sum += std::exp(x[v] - largest);
    losses[row] = static_cast<float>(std::log(sum) - (x[target] - largest));
    for (int64_t v = 0; v < V; ++v) {
      const double p = std::exp(x[v] - largest) / sum;
      x[v] = static_cast<float>((p - (v == target ? 1.0 : 0.0)) * double{scale});
    }
  }
}

}  // namespace lockstep::kernels::reference
