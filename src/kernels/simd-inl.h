// Building blocks of the vector kernels, compiled once per instruction set (Highway's per-target include
// guard): partial loads and stores that touch nothing beyond the n elements asked for, reductions, and exp.
#if defined(LOCKSTEP_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_SIMD_INL_H_
#undef LOCKSTEP_KERNELS_SIMD_INL_H_
#else
#define LOCKSTEP_KERNELS_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// Highway's masked loads and stores leave the masked-off memory alone only where the CPU has such
// instructions; elsewhere they read (and rewrite) whole vectors.
#undef LOCKSTEP_MASKED_MEMORY
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define LOCKSTEP_MASKED_MEMORY 1
#else
#define LOCKSTEP_MASKED_MEMORY 0
#endif

/// The first n (0 <= n < lanes) elements at p, the other lanes 0.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_partial(D d, const T* HWY_RESTRICT p, int64_t n) {
#if LOCKSTEP_MASKED_MEMORY
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#endif
}

/// Writes the first n (0 <= n < lanes) lanes to p and nothing else.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_partial(hn::Vec<D> v, D d, T* HWY_RESTRICT p, int64_t n) {
#if LOCKSTEP_MASKED_MEMORY
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
  hn::Store(v, d, lanes);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
#endif
}

template <class D>
HWY_INLINE int64_t lanes_of(D d) {
  return static_cast<int64_t>(hn::Lanes(d));
}

template <class D>
HWY_INLINE hn::TFromD<D> reduce_sum(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

template <class D>
HWY_INLINE hn::TFromD<D> reduce_max(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

/// A kernel's column loop is written once as a template over its access to memory: whole vectors, and the
/// partial vector at the end of a row.
struct FullAccess {
  template <class D, typename T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> load(D d, const T* p) const {
    return hn::LoadU(d, p);
  }
  template <class D, typename T = hn::TFromD<D>>
  HWY_INLINE void store(hn::Vec<D> v, D d, T* p) const {
    hn::StoreU(v, d, p);
  }
};

struct PartialAccess {
  int64_t n;
  template <class D, typename T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> load(D d, const T* p) const {
    return load_partial(d, p, n);
  }
  template <class D, typename T = hn::TFromD<D>>
  HWY_INLINE void store(hn::Vec<D> v, D d, T* p) const {
    store_partial(v, d, p, n);
  }
};

/// out[c] = ((keep ? out[c] : 0) + src[0, c]) + src[1, c] + ..., in row order, c < n: the second half of
/// every sum over fixed blocks of rows.
template <class D, class Access>
HWY_INLINE void fold_rows_at(D d, const Access& access, const float* src, int64_t rows, int64_t stride,
                             bool keep, float* out) {
  auto sum = keep ? access.load(d, out) : hn::Zero(d);
  for (int64_t row = 0; row < rows; ++row) sum = hn::Add(sum, access.load(d, src + row * stride));
  access.store(sum, d, out);
}

template <class D>
HWY_INLINE void fold_rows(D d, const float* src, int64_t rows, int64_t stride, int64_t n, bool keep,
                          float* out) {
  const int64_t lanes = lanes_of(d);
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) fold_rows_at(d, FullAccess(), src + c, rows, stride, keep, out + c);
  if (c < n) fold_rows_at(d, PartialAccess{n - c}, src + c, rows, stride, keep, out + c);
}

/// min(v, limit) that keeps NaN in v.
template <class D>
HWY_INLINE hn::Vec<D> min_keep_nan(D d, hn::Vec<D> v, float limit) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  (void)d;
  return hn::Min(hn::Set(d, limit), v);  // minps gives its second operand when either is NaN
#else
  return hn::IfThenElse(hn::Gt(v, hn::Set(d, limit)), hn::Set(d, limit), v);
#endif
}

/// Adding this rounds x in [-126, 127] to an integer k, and leaves k + 127, the exponent field of 2^k, in the
/// low bits of the sum's mantissa: 1.5 * 2^23 + 127.
inline constexpr float kExponentShift = 12583039.0f;

/// 2^k from `shifted` = k + kExponentShift, -126 <= k <= 127.
template <class D>
HWY_INLINE hn::Vec<D> power_of_two(D d, hn::Vec<D> shifted) {
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(hn::RebindToUnsigned<D>(), shifted)));
}

/// exp(x) for x <= 88: relative error below 2^-23 for x in [-87.336, 88]; exactly 0 below -87.336 (the result
/// would be denormal), -infinity included; NaN gives NaN; above 88 unspecified.
///
/// x = k ln 2 + r with |r| <= ln(2)/2: exp(x) = 2^k (1 + r + r^2 q(r)), q of degree 4 fitted to minimise the
/// largest relative error (3.1e-9). ln 2 is split so that k * high is exact.
template <class D>
HWY_INLINE hn::Vec<D> exp_up_to_88(D d, hn::Vec<D> x) {
  const auto shift = hn::Set(d, kExponentShift);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
  const auto k = hn::Sub(shifted, shift);
  auto r = hn::NegMulAdd(k, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(k, hn::Set(d, -2.12194440e-4f), r);
  auto q = hn::Set(d, 0.001381446490995586f);
  q = hn::MulAdd(q, r, hn::Set(d, 0.008368780836462975f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.04166839271783829f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.1666651964187622f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.4999999403953552f));
  const auto p = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
  // A multiplication, not an addition to the exponent bits, so that NaN stays NaN.
  const auto result = hn::Mul(p, power_of_two(d, shifted));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.336f)), result);
}

/// 2^f for |f| <= 1/2, relative error 2.0e-9 before rounding.
template <class D>
HWY_INLINE hn::Vec<D> exp2_fraction(D d, hn::Vec<D> f) {
  auto p = hn::Set(d, 0.00015353309572674334f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.0013398939045146108f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.009618437848985195f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.055503323674201965f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022647738456726f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.6931471824645996f));
  return hn::MulAdd(p, f, hn::Set(d, 1.0f));
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
