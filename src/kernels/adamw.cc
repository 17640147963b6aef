#include "kernels/adamw.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"
// clang-format on
#include "kernels/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// Mul and Add, never MulAdd: a fused one rounds once, and only some instruction sets have it.
template <class D, class Access>
HWY_INLINE void adamw_at(D d, const Access& access, const AdamWScalars& s, float* p, const float* g, float* m,
                         float* v) {
  const auto grad = hn::Mul(access.load(d, g), hn::Set(d, s.grad_scale));
  const auto m_old = access.load(d, m);
  const auto m_new = hn::Add(m_old, hn::Mul(hn::Set(d, s.beta1_complement), hn::Sub(grad, m_old)));
  const auto square = hn::Mul(hn::Mul(hn::Set(d, s.beta2_complement), grad), grad);
  const auto v_new = hn::Add(hn::Mul(hn::Set(d, s.beta2), access.load(d, v)), square);
  const auto root = hn::Mul(hn::Sqrt(v_new), hn::Set(d, s.inverse_sqrt_bias2));
  const auto denominator = hn::Add(root, hn::Set(d, s.epsilon));
  const auto change = hn::Div(hn::Mul(hn::Set(d, s.step_size), m_new), denominator);
  const auto decayed = hn::Mul(access.load(d, p), hn::Set(d, s.decay));
  access.store(hn::Sub(decayed, change), d, p);
  access.store(m_new, d, m);
  access.store(v_new, d, v);
}

void adamw_range(float* p, const float* g, float* m, float* v, int64_t n, const AdamWScalars& scalars) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  const AdamWScalars s = scalars;  // a copy: the stores below cannot alias it
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) adamw_at(d, FullAccess(), s, p + i, g + i, m + i, v + i);
  if (i < n) adamw_at(d, PartialAccess{n - i}, s, p + i, g + i, m + i, v + i);
}

#if HWY_TARGET != HWY_SCALAR
// kNormLanes virtual lanes in 1, 2 or 4 real vectors; every lane adds its own elements in order, so the width
// does not show in the bits.
template <class D>
HWY_INLINE int64_t square_lanes(D d, const float* x, int64_t n, float* lanes_out) {
  const int64_t lanes = lanes_of(d);
  auto a0 = hn::Zero(d), a1 = hn::Zero(d), a2 = hn::Zero(d), a3 = hn::Zero(d);
  int64_t i = 0;
  if (lanes == 16) {
    for (; i + 16 <= n; i += 16) {
      const auto x0 = hn::LoadU(d, x + i);
      a0 = hn::Add(a0, hn::Mul(x0, x0));
    }
  } else if (lanes == 8) {
    for (; i + 16 <= n; i += 16) {
      const auto x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + 8);
      a0 = hn::Add(a0, hn::Mul(x0, x0));
      a1 = hn::Add(a1, hn::Mul(x1, x1));
    }
    hn::StoreU(a1, d, lanes_out + 8);
  } else {
    for (; i + 16 <= n; i += 16) {
      const auto x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + 4);
      const auto x2 = hn::LoadU(d, x + i + 8), x3 = hn::LoadU(d, x + i + 12);
      a0 = hn::Add(a0, hn::Mul(x0, x0));
      a1 = hn::Add(a1, hn::Mul(x1, x1));
      a2 = hn::Add(a2, hn::Mul(x2, x2));
      a3 = hn::Add(a3, hn::Mul(x3, x3));
    }
    hn::StoreU(a1, d, lanes_out + 4);
    hn::StoreU(a2, d, lanes_out + 8);
    hn::StoreU(a3, d, lanes_out + 12);
  }
  hn::StoreU(a0, d, lanes_out);
  return i;
}
#endif

float square_block(const float* x, int64_t n) {
  float lanes[kNormLanes] = {};
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  i = square_lanes(hn::CappedTag<float, kNormLanes>(), x, n, lanes);
#endif
  for (; i < n; ++i) lanes[i % kNormLanes] += x[i] * x[i];
  for (int64_t width = kNormLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(adamw_range);
HWY_EXPORT(square_block);

void adamw_update(float* p, const float* g, float* m, float* v, int64_t n, const AdamWScalars& scalars) {
  // 64 KB of each of the four streams.
  constexpr int64_t kElements = 16384;
  const auto range = HWY_DYNAMIC_DISPATCH(adamw_range);
  parallel_ranges(n, kElements, [&](int64_t begin, int64_t end) {
    range(p + begin, g + begin, m + begin, v + begin, end - begin, scalars);
  });
}

int64_t sum_of_squares_workspace(int64_t n) {
  return std::max<int64_t>(1, piece_count(n, kNormBlock));
}

double sum_of_squares(const float* x, int64_t n, float* workspace) {
  // Several blocks per piece: longer runs for the prefetcher.
  constexpr int64_t kBlocksPerPiece = 4;
  const auto block = HWY_DYNAMIC_DISPATCH(square_block);
  parallel_ranges(n, kBlocksPerPiece * kNormBlock, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kNormBlock) {
      workspace[at / kNormBlock] = block(x + at, std::min(kNormBlock, end - at));
    }
  });
  double sum = 0.0;
  for (int64_t i = 0; i < piece_count(n, kNormBlock); ++i) sum += static_cast<double>(workspace[i]);
  return sum;
}

}  // namespace lockstep::kernels
#endif
