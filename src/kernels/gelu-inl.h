// GELU and its derivative from one exponential, on vectors; compiled once per instruction set.
//
// Error of the value: relative (x^2 / 2 + 16) 2^-24 (the x^2 / 2 is what rounding x^2 does to the
// exponential), in the tanh form (3 |2u| + 16) 2^-24; over all x the absolute error is below 2e-7 max(1,
// x). The exponential becomes 0 below 1.2e-38, so values of |x| times that and derivatives of 610 times that
// may. NaN gives NaN; +infinity gives +infinity; the value at -infinity and the derivative at either infinity
// are NaN, as the formula's infinity times 0 says (and PyTorch).
#if defined(LOCKSTEP_KERNELS_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_GELU_INL_H_
#undef LOCKSTEP_KERNELS_GELU_INL_H_
#else
#define LOCKSTEP_KERNELS_GELU_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

/// |x| is cut here: the exponentials of both forms are 0 in fp32 from 13.3 on.
inline constexpr float kGeluSaturation = 14.0f;

/// Phi(-a) = exp(-a^2 / 2) R(a) for a >= 0, where R = Mills' ratio / sqrt(2 pi) falls from 1/2 like 1 / a. R
/// is approximated on [0, 14] by P4 / Q5 with all coefficients positive (no cancellation), fitted to minimise
/// the largest relative error (5.6e-9).
struct GeluErf {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void evaluate(D d, V x, V& value, V& derivative) {
    const auto a = hn::Min(hn::Abs(x), hn::Set(d, kGeluSaturation));
    const auto e = exp_up_to_88(d, hn::Mul(hn::Mul(hn::Set(d, -0.5f), a), a));
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
    const auto cdf = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
    value = hn::Mul(x, cdf);
    const auto density = hn::Mul(e, hn::Set(d, 0.3989422804f));
    derivative = hn::MulAdd(x, density, cdf);
  }
};

/// (1 + tanh u) / 2 = 1 / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3), from exp(-2 |u|).
struct GeluTanh {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void evaluate(D d, V x, V& value, V& derivative) {
    const auto linear = hn::Set(d, 1.5957691216f);  // 2 sqrt(2 / pi)
    const auto cubic = hn::Set(d, 0.0713548163f);   // that times 0.044715
    const auto one = hn::Set(d, 1.0f);
    const auto a = hn::Min(hn::Abs(x), hn::Set(d, kGeluSaturation));
    const auto cubic_a2 = hn::Mul(cubic, hn::Mul(a, a));
    const auto two_u = hn::Mul(a, hn::Add(linear, cubic_a2));
    const auto e = exp_up_to_88(d, hn::Neg(two_u));
    const auto upper = hn::Div(one, hn::Add(one, e));
    const auto lower = hn::Mul(e, upper);
    const auto cdf = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), lower, upper);
    value = hn::Mul(x, cdf);
    const auto slope = hn::MulAdd(hn::Set(d, 3.0f), cubic_a2, linear);
    derivative = hn::MulAdd(hn::Mul(x, hn::Mul(lower, upper)), slope, cdf);
  }
};

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
