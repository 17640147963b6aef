// Each row goes through memory twice: one pass takes the maximum and the sum of exponentials and leaves the
// exponentials behind, the other scales them. The first pass works in chunks that stay in L1; within a chunk
// exponentials are relative to the largest logit so far, which the second pass corrects by one factor per
// chunk. So there is one exponential per logit.
#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"
// clang-format on
#include "kernels/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

HWY_INLINE float chunk_max(const float* x, int64_t n) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  const float lowest = -std::numeric_limits<float>::infinity();
  auto m0 = hn::Set(d, lowest), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) m0 = hn::Max(m0, hn::LoadU(d, x + i));
  if (i < n) {
    const auto inside = hn::FirstN(d, static_cast<size_t>(n - i));
    m1 = hn::Max(m1, hn::IfThenElse(inside, load_partial(d, x + i, n - i), hn::Set(d, lowest)));
  }
  return reduce_max(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3)));
}

// Sum of exp(x - offset); kStore: the exponentials replace x.
template <bool kStore>
HWY_INLINE float chunk_exp_sum(const float* x, float offset, int64_t n, float* out) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  const auto m = hn::Set(d, offset);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto e0 = exp_up_to_88(d, hn::Sub(hn::LoadU(d, x + i), m));
    const auto e1 = exp_up_to_88(d, hn::Sub(hn::LoadU(d, x + i + lanes), m));
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
    if constexpr (kStore) {
      hn::StoreU(e0, d, out + i);
      hn::StoreU(e1, d, out + i + lanes);
    }
  }
  for (; i < n; i += lanes) {
    const int64_t count = n - i < lanes ? n - i : lanes;
    const bool whole = count == lanes;
    const auto v = whole ? hn::LoadU(d, x + i) : load_partial(d, x + i, count);
    const auto e = exp_up_to_88(d, hn::Sub(v, m));
    if (whole) {
      s0 = hn::Add(s0, e);
      if constexpr (kStore) hn::StoreU(e, d, out + i);
    } else {
      s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), e));
      if constexpr (kStore) store_partial(e, d, out + i, count);
    }
  }
  return reduce_sum(d, hn::Add(s0, s1));
}

HWY_INLINE void scale_chunk(float* x, float factor, int64_t n) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), f), d, x + i);
  if (i < n) store_partial(hn::Mul(load_partial(d, x + i, n - i), f), d, x + i, n - i);
}

// At most kChunksMax chunks of at least 2048 floats (8 KB, a quarter of the smallest L1).
constexpr int64_t kChunksMax = 64;
HWY_INLINE int64_t chunk_length(int64_t V) {
  return std::max<int64_t>(2048, (V + kChunksMax - 1) / kChunksMax);
}

// The row's largest logit so far may be -infinity; exponentials are then taken relative to 0, and are 0.
HWY_INLINE float offset_of(float largest) {
  return largest == -std::numeric_limits<float>::infinity() ? 0.0f : largest;
}

struct RowSum {
  float offset;  // what the sum is relative to
  float sum;     // of exp(x - offset)
};

// kStore: x becomes exp(x - offsets[chunk]).
template <bool kStore>
HWY_INLINE RowSum row_exp_sum(float* x, int64_t V, float* offsets) {
  const int64_t length = chunk_length(V);
  float largest = -std::numeric_limits<float>::infinity();
  float offset = 0.0f, sum = 0.0f;
  for (int64_t begin = 0, chunk = 0; begin < V; begin += length, ++chunk) {
    const int64_t n = std::min(length, V - begin);
    const float before = offset;
    largest = std::max(largest, chunk_max(x + begin, n));
    offset = offset_of(largest);
    if (sum != 0.0f) sum *= std::exp(before - offset);  // 0: no chunk before, or only -infinity in it
    sum += chunk_exp_sum<kStore>(x + begin, offset, n, x + begin);
    offsets[chunk] = offset;
  }
  return {offset, sum};
}

float loss_row(const float* logits, int64_t V, int32_t target) {
  float offsets[kChunksMax];
  // Without kStore nothing is written.
  const auto [offset, sum] = row_exp_sum<false>(const_cast<float*>(logits), V, offsets);
  return std::log(sum) - (logits[target] - offset);
}

float loss_and_gradient_row(float* x, int64_t V, int32_t target, float scale) {
  float offsets[kChunksMax];
  const float target_logit = x[target];
  const auto [offset, sum] = row_exp_sum<true>(x, V, offsets);
  const float factor = scale / sum;
  const int64_t length = chunk_length(V);
  for (int64_t begin = 0, chunk = 0; begin < V; begin += length, ++chunk) {
    const int64_t n = std::min(length, V - begin);
    // Above the final offset only for a chunk of nothing but -infinity, which holds zeros.
    const float correction =
        offsets[chunk] == offset ? 1.0f : std::exp(std::min(offsets[chunk] - offset, 0.0f));
    scale_chunk(x + begin, correction * factor, n);
  }
  x[target] -= scale;
  return std::log(sum) - (target_logit - offset);
}

void loss_rows(const float* logits, int64_t begin, int64_t end, int64_t V, int64_t ld, const int32_t* targets,
               float* losses) {
  for (int64_t row = begin; row < end; ++row) {
    const int32_t target = targets[row];
    losses[row] = target == kIgnoreTarget ? 0.0f : loss_row(logits + row * ld, V, target);
  }
}

void gradient_rows(float* logits, int64_t begin, int64_t end, int64_t V, int64_t ld, const int32_t* targets,
                   float scale, float* losses) {
  for (int64_t row = begin; row < end; ++row) {
    const int32_t target = targets[row];
    float* x = logits + row * ld;
    if (target == kIgnoreTarget) {
      std::fill(x, x + V, 0.0f);
      losses[row] = 0.0f;
    } else {
      losses[row] = loss_and_gradient_row(x, V, target, scale);
    }
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(loss_rows);
HWY_EXPORT(gradient_rows);

void cross_entropy_forward_backward(float* logits, int64_t rows, int64_t V, int64_t ld,
                                    const int32_t* targets, float scale, float* losses) {
  const auto gradient = HWY_DYNAMIC_DISPATCH(gradient_rows);
  // Four times the bytes: an exponential takes about as long as reading 16 bytes.
  parallel_ranges(rows, rows_per_piece(V * 16), [&](int64_t begin, int64_t end) {
    gradient(logits, begin, end, V, ld, targets, scale, losses);
  });
}

void cross_entropy_forward(const float* logits, int64_t rows, int64_t V, int64_t ld, const int32_t* targets,
                           float* losses) {
  const auto loss = HWY_DYNAMIC_DISPATCH(loss_rows);
  parallel_ranges(rows, rows_per_piece(V * 16),
                  [&](int64_t begin, int64_t end) { loss(logits, begin, end, V, ld, targets, losses); });
}

}  // namespace lockstep::kernels
#endif
