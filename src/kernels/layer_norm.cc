#include "kernels/layer_norm.h"

#include <cmath>

#ifndef LOCKSTEP_KERNELS_LAYER_NORM_CC_ONCE_
#define LOCKSTEP_KERNELS_LAYER_NORM_CC_ONCE_
namespace lockstep::kernels {
namespace {
// What residual_layer_norm_forward was called with.
struct ResidualNorm {
  const float *x, *delta, *delta_bias, *w, *b;
  int64_t C;
  float epsilon;
  const DropoutKey& key;
  int64_t rows_per_sample;
  float *sum, *y, *mean, *rstd;
};
}  // namespace
}  // namespace lockstep::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/dropout-inl.h"
// clang-format on
#include "kernels/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// A row is read from memory once and then, being in L1, again: mean first, then the squares of the deviations
// from it, which do not cancel however large the mean is.
HWY_INLINE float row_sum(const float* x, int64_t n) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t c = 0;
  for (; c + 4 * lanes <= n; c += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, x + c));
    s1 = hn::Add(s1, hn::LoadU(d, x + c + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, x + c + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, x + c + 3 * lanes));
  }
  for (; c + lanes <= n; c += lanes) s0 = hn::Add(s0, hn::LoadU(d, x + c));
  if (c < n) s1 = hn::Add(s1, load_partial(d, x + c, n - c));
  return reduce_sum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

HWY_INLINE float row_square_deviation(const float* x, float mean, int64_t n) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  const auto mu = hn::Set(d, mean);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t c = 0;
  for (; c + 4 * lanes <= n; c += 4 * lanes) {
    const auto x0 = hn::Sub(hn::LoadU(d, x + c), mu);
    const auto x1 = hn::Sub(hn::LoadU(d, x + c + lanes), mu);
    const auto x2 = hn::Sub(hn::LoadU(d, x + c + 2 * lanes), mu);
    const auto x3 = hn::Sub(hn::LoadU(d, x + c + 3 * lanes), mu);
    s0 = hn::MulAdd(x0, x0, s0);
    s1 = hn::MulAdd(x1, x1, s1);
    s2 = hn::MulAdd(x2, x2, s2);
    s3 = hn::MulAdd(x3, x3, s3);
  }
  for (; c + lanes <= n; c += lanes) {
    const auto x0 = hn::Sub(hn::LoadU(d, x + c), mu);
    s0 = hn::MulAdd(x0, x0, s0);
  }
  if (c < n) {
    const auto inside = hn::FirstN(d, static_cast<size_t>(n - c));
    const auto x0 = hn::IfThenElseZero(inside, hn::Sub(load_partial(d, x + c, n - c), mu));
    s1 = hn::MulAdd(x0, x0, s1);
  }
  return reduce_sum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

template <class D, class Access>
HWY_INLINE void apply_at(D d, const Access& access, const float* x, hn::Vec<D> mu, hn::Vec<D> r,
                         const float* w, const float* b, float* y) {
  const auto xhat = hn::Mul(hn::Sub(access.load(d, x), mu), r);
  const auto shift = b != nullptr ? access.load(d, b) : hn::Zero(d);
  access.store(hn::MulAdd(xhat, access.load(d, w), shift), d, y);
}

HWY_INLINE void apply_row(const float* x, float mean, float rstd, const float* w, const float* b, int64_t n,
                          float* y) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  const auto mu = hn::Set(d, mean), r = hn::Set(d, rstd);
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    apply_at(d, FullAccess(), x + c, mu, r, w + c, b != nullptr ? b + c : nullptr, y + c);
  }
  if (c < n) {
    apply_at(d, PartialAccess{n - c}, x + c, mu, r, w + c, b != nullptr ? b + c : nullptr, y + c);
  }
}

HWY_INLINE void normalise_row(const float* x, const float* w, const float* b, int64_t C, float epsilon,
                              float* y, float* mean, float* rstd) {
  const float inverse_width = 1.0f / static_cast<float>(C);
  const float mu = row_sum(x, C) * inverse_width;
  const float variance = row_square_deviation(x, mu, C) * inverse_width;
  const float r = 1.0f / std::sqrt(variance + epsilon);
  apply_row(x, mu, r, w, b, C, y);
  *mean = mu;
  *rstd = r;
}

void norm_rows(const float* x, const float* w, const float* b, int64_t begin, int64_t end, int64_t C,
               float epsilon, float* y, float* mean, float* rstd) {
  for (int64_t row = begin; row < end; ++row) {
    normalise_row(x + row * C, w, b, C, epsilon, y + row * C, mean + row, rstd + row);
  }
}

void apply_rows(const float* x, const float* mean, const float* rstd, const float* w, const float* b,
                int64_t begin, int64_t end, int64_t C, float* y) {
  for (int64_t row = begin; row < end; ++row) {
    apply_row(x + row * C, mean[row], rstd[row], w, b, C, y + row * C);
  }
}

template <class D, class Access>
HWY_INLINE void residual_at(D d, const Access& access, const float* x, const float* delta, const float* bias,
                            const float* multipliers, float* sum) {
  auto v = access.load(d, delta);
  if (bias != nullptr) v = hn::Add(v, access.load(d, bias));
  if (multipliers != nullptr) v = hn::Mul(v, access.load(d, multipliers));
  access.store(hn::Add(access.load(d, x), v), d, sum);
}

// sum = x + multipliers * (delta + bias); bias and multipliers may be null.
HWY_INLINE void residual_row(const float* x, const float* delta, const float* bias, const float* multipliers,
                             int64_t n, float* sum) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    residual_at(d, FullAccess(), x + c, delta + c, bias != nullptr ? bias + c : nullptr,
                multipliers != nullptr ? multipliers + c : nullptr, sum + c);
  }
  if (c < n) {
    residual_at(d, PartialAccess{n - c}, x + c, delta + c, bias != nullptr ? bias + c : nullptr,
                multipliers != nullptr ? multipliers + c : nullptr, sum + c);
  }
}

void residual_norm_rows(const ResidualNorm& args, int64_t begin, int64_t end) {
  constexpr int64_t kChunk = 512;
  HWY_ALIGN float multipliers[kChunk];
  const int64_t C = args.C;
  for (int64_t row = begin; row < end; ++row) {
    float* sum = args.sum + row * C;
    if (args.key.p == 0.0f) {
      residual_row(args.x + row * C, args.delta + row * C, args.delta_bias, nullptr, C, sum);
    } else {
      const auto stream = make_dropout_stream(args.key, row / args.rows_per_sample);
      const int64_t element = row % args.rows_per_sample * C;
      for (int64_t c = 0; c < C; c += kChunk) {
        const int64_t n = C - c < kChunk ? C - c : kChunk;
        dropout_multipliers(FloatTag(), stream, static_cast<uint64_t>(element + c), n, multipliers);
        residual_row(args.x + row * C + c, args.delta + row * C + c,
                     args.delta_bias != nullptr ? args.delta_bias + c : nullptr, multipliers, n, sum + c);
      }
    }
    normalise_row(sum, args.w, args.b, C, args.epsilon, args.y + row * C, args.mean + row, args.rstd + row);
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(norm_rows);
HWY_EXPORT(apply_rows);
HWY_EXPORT(residual_norm_rows);

void layer_norm_forward(const float* x, const float* w, const float* b, int64_t rows, int64_t C,
                        float epsilon, float* y, float* mean, float* rstd) {
  const auto norm = HWY_DYNAMIC_DISPATCH(norm_rows);
  parallel_ranges(rows, rows_per_piece(C * 8),
                  [&](int64_t begin, int64_t end) { norm(x, w, b, begin, end, C, epsilon, y, mean, rstd); });
}

void residual_layer_norm_forward(const float* x, const float* delta, const float* delta_bias, const float* w,
                                 const float* b, int64_t rows, int64_t C, float epsilon,
                                 const DropoutKey& key, int64_t rows_per_sample, float* sum, float* y,
                                 float* mean, float* rstd) {
  const ResidualNorm args{x, delta, delta_bias, w, b, C, epsilon, key, rows_per_sample, sum, y, mean, rstd};
  const auto norm = HWY_DYNAMIC_DISPATCH(residual_norm_rows);
  parallel_ranges(rows, rows_per_piece(C * 16), [&](int64_t begin, int64_t end) { norm(args, begin, end); });
}

void layer_norm_apply(const float* x, const float* mean, const float* rstd, const float* w, const float* b,
                      int64_t rows, int64_t C, float* y) {
  const auto apply = HWY_DYNAMIC_DISPATCH(apply_rows);
  parallel_ranges(rows, rows_per_piece(C * 8),
                  [&](int64_t begin, int64_t end) { apply(x, mean, rstd, w, b, begin, end, C, y); });
}

}  // namespace lockstep::kernels
#endif
