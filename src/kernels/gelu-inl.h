// GELU and its derivative from one exponential, on vectors; compiled once per instruction set.
//
// Both forms have the symmetry gelu(x) = max(x, 0) - |x| tail(|x|) and gelu'(x) = w(|x|) for x < 0, 1 -
// w(|x|) otherwise, so only |x| is evaluated.
//
// Error of the value: relative (1.25 x^2 + 16) 2^-24 (what rounding x^2 does to the exponential), in the tanh
// form (4.5 |2u| + 16) 2^-24; over all x the absolute error is below 2e-7 max(1, x). From |x| = 12.9
// (tanh: 9.9) on |x| is cut, which keeps everything clear of denormals: the value there is within 2e-36 of
// max(x, 0), the derivative within 3e-35 of 0 or 1. NaN gives NaN; infinities give their limits.
#if defined(LOCKSTEP_KERNELS_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_GELU_INL_H_
#undef LOCKSTEP_KERNELS_GELU_INL_H_
#else
#define LOCKSTEP_KERNELS_GELU_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

/// x for x >= 0, 0 for x < 0, NaN for NaN.
template <class D>
HWY_INLINE hn::Vec<D> positive_part(D d, hn::Vec<D> x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}

/// w for x < 0, 1 - w otherwise (NaN included: w is NaN then).
template <class D>
HWY_INLINE hn::Vec<D> mirrored(D d, hn::Vec<D> x, hn::Vec<D> w) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), w, hn::Sub(hn::Set(d, 1.0f), w));
}

/// tail = Phi(-a) = exp(-a^2 / 2) R(a), w = tail - a phi(a). R = Mills' ratio / sqrt(2 pi) falls from 1/2
/// like 1 / a; it is approximated on [0, 14] by P4 / Q5 with all coefficients positive (no cancellation),
/// fitted to minimise the largest relative error (5.6e-9).
struct GeluErf {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void evaluate(D d, V x, V& value, V& derivative) {
    const auto a = min_keep_nan(d, hn::Abs(x), 12.9f);
    const auto a2 = hn::Mul(a, a);
    // exp(-a^2 / 2) = 2^(k + f), k + f = -a^2 / (2 ln 2).
    const auto scale = hn::Set(d, -0.7213475108146667f);
    const auto shift = hn::Set(d, kExponentShift);
    const auto shifted = hn::MulAdd(a2, scale, shift);
    const auto f = hn::MulSub(a2, scale, hn::Sub(shifted, shift));
    const auto e = hn::Mul(exp2_fraction(d, f), power_of_two(d, shifted));
    auto p = hn::Set(d, 0.004077592398971319f);
    p = hn::MulAdd(p, a, hn::Set(d, 0.04037243872880936f));
    p = hn::MulAdd(p, a, hn::Set(d, 0.18246150016784668f));
    p = hn::MulAdd(p, a, hn::Set(d, 0.4372504651546478f));
    p = hn::MulAdd(p, a, hn::Set(d, 0.5f));
    auto q = hn::Set(d, 0.010220879688858986f);
    q = hn::MulAdd(q, a, hn::Set(d, 0.10120551288127899f));
    q = hn::MulAdd(q, a, hn::Set(d, 0.46742820739746094f));
    q = hn::MulAdd(q, a, hn::Set(d, 1.199289321899414f));
    q = hn::MulAdd(q, a, hn::Set(d, 1.6723859310150146f));
    q = hn::MulAdd(q, a, hn::Set(d, 1.0f));
    const auto tail = hn::Mul(e, hn::Div(p, q));
    value = hn::NegMulAdd(a, tail, positive_part(d, x));
    const auto a_density = hn::Mul(a, hn::Mul(e, hn::Set(d, 0.3989422804f)));
    derivative = mirrored(d, x, hn::Sub(tail, a_density));
  }
};

/// tail = e / (1 + e), e = exp(-2u), u = sqrt(2 / pi) (a + 0.044715 a^3), since (1 + tanh u) / 2 = 1 / (1 +
/// e); w = tail - a tail / (1 + e) * d(2u)/da.
struct GeluTanh {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void evaluate(D d, V x, V& value, V& derivative) {
    const auto one = hn::Set(d, 1.0f);
    const auto a = min_keep_nan(d, hn::Abs(x), 9.9f);
    const auto a2 = hn::Mul(a, a);
    // exp(-2u) = 2^(k + f); the coefficients are 2 sqrt(2 / pi) / ln 2, and that times 0.044715.
    const auto factor = hn::MulAdd(a2, hn::Set(d, 0.10294324159622192f), hn::Set(d, 2.302208185195923f));
    const auto exponent = hn::Mul(a, factor);
    const auto shift = hn::Set(d, kExponentShift);
    const auto shifted = hn::Sub(shift, exponent);
    const auto f = hn::Sub(hn::Sub(shift, shifted), exponent);
    const auto e = hn::Mul(exp2_fraction(d, f), power_of_two(d, shifted));
    const auto upper = hn::Div(one, hn::Add(one, e));
    const auto tail = hn::Mul(e, upper);
    value = hn::NegMulAdd(a, tail, positive_part(d, x));
    // d(2u)/da = 2 sqrt(2 / pi) (1 + 3 * 0.044715 a^2)
    const auto slope = hn::MulAdd(a2, hn::Set(d, 0.21406444881780073f), hn::Set(d, 1.5957691216f));
    const auto a_tail = hn::Mul(a, tail);
    derivative = mirrored(d, x, hn::NegMulAdd(hn::Mul(a_tail, upper), slope, tail));
  }
};

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
