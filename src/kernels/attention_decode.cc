#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_decode.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/attention_tile-inl.h"
// clang-format on
#include "kernels/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

HWY_INLINE float dot(const float* a, const float* b, int64_t n) {
  const FloatTag d;
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  if (i < n) sum = hn::MulAdd(load_partial(d, a + i, n - i), load_partial(d, b + i, n - i), sum);
  return reduce_sum(d, sum);
}

/// sums (size) = sums * rescale + sum over j < count of weights[j] * rows[j] (row stride size).
HWY_INLINE void add_weighted_rows(const float* rows, const float* weights, int64_t count, int64_t size,
                                  float rescale, float* sums) {
  const FloatTag d;
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t n = std::min(kLanes, size - i);
    const bool whole = n == kLanes;
    auto sum = whole ? hn::LoadU(d, sums + i) : load_partial(d, sums + i, n);
    sum = hn::Mul(sum, hn::Set(d, rescale));
    for (int64_t j = 0; j < count; ++j) {
      const float* row = rows + j * size + i;
      sum = hn::MulAdd(hn::Set(d, weights[j]), whole ? hn::LoadU(d, row) : load_partial(d, row, n), sum);
    }
    if (whole) {
      hn::StoreU(sum, d, sums + i);
    } else {
      store_partial(sum, d, sums + i, n);
    }
  }
}

/// One head: q (D), keys and values (length, D), out (D). Keys are taken in chunks, each rescaling what was
/// summed before, so that the scores fit on the stack.
void decode_head(int64_t size, int64_t length, const float* q, const float* keys, const float* values,
                 float* out) {
  constexpr int64_t kChunk = 256;
  static_assert(kChunk % kLanes == 0);
  const FloatTag d;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  HWY_ALIGN float weights[kChunk];
  float largest = -std::numeric_limits<float>::infinity(), total = 0.0f;
  std::fill(out, out + size, 0.0f);
  for (int64_t first = 0; first < length; first += kChunk) {
    const int64_t count = std::min(kChunk, length - first);
    const float largest_before = largest;
    for (int64_t j = 0; j < count; ++j) {
      weights[j] = scale * dot(q, keys + (first + j) * size, size);
      largest = std::max(largest, weights[j]);
    }
    // Whole vectors from here on; the lanes behind the last key are set to zero below.
    std::fill(weights + count, weights + round_up(count, kLanes), largest);
    auto sum = hn::Zero(d);
    for (int64_t j = 0; j < count; j += kLanes) {
      const auto x = hn::Sub(hn::Load(d, weights + j), hn::Set(d, largest));
      auto weight = exp_up_to_88(d, x);
      if (j + kLanes > count) {
        weight = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count - j)), weight);
      }
      sum = hn::Add(sum, weight);
      hn::Store(weight, d, weights + j);
    }
    const float rescale =
        first == 0 ? 0.0f : hn::GetLane(exp_up_to_88(d, hn::Set(d, largest_before - largest)));
    total = total * rescale + reduce_sum(d, sum);
    add_weighted_rows(values + first * size, weights, count, size, rescale, out);
  }
  for (int64_t i = 0; i < size; ++i) out[i] /= total;
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(decode_head);

void decode_attention(const DecodeShape& shape, const float* q, int64_t q_stride, const float* keys,
                      const float* values, float* out, int64_t out_stride) {
  const auto run = HWY_DYNAMIC_DISPATCH(decode_head);
  parallel_pieces(shape.B * shape.H, [&](int64_t piece) {
    const int64_t b = piece / shape.H, h = piece % shape.H;
    const int64_t cache = piece * shape.capacity * shape.D;
    run(shape.D, shape.length, q + b * q_stride + h * shape.D, keys + cache, values + cache,
        out + b * out_stride + h * shape.D);
  });
}

}  // namespace lockstep::kernels
#endif
