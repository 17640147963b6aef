#include "kernels/bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bf16.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"
// clang-format on
#include "kernels/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

void narrow_range(const float* x, int64_t n, uint16_t* y) {
  const hn::ScalableTag<int32_t> d32;
  const hn::Rebind<uint16_t, decltype(d32)> d16;
  const int64_t lanes = lanes_of(d32);
  const auto one = hn::Set(d32, 1);
  const auto half = hn::Set(d32, 0x7FFF);
  const auto infinity = hn::Set(d32, 0x7F800000);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::BitCast(d32, hn::LoadU(FloatTag(), x + i));
    const auto even = hn::And(hn::ShiftRight<16>(bits), one);
    // Addition wraps only for negative NaN, which is replaced.
    const auto rounded = hn::Add(bits, hn::Add(half, even));
    const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000));
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(d32, 0x7FFFFFFF)), infinity);
    const auto chosen = hn::IfThenElse(is_nan, quiet, rounded);
    const hn::RebindToUnsigned<decltype(d32)> du32;
    const auto upper = hn::BitCast(d32, hn::ShiftRight<16>(hn::BitCast(du32, chosen)));
    hn::StoreU(hn::DemoteTo(d16, upper), d16, y + i);  // 0..0xFFFF: the saturation never acts
  }
  for (; i < n; ++i) y[i] = to_bf16(x[i]);
}

void widen_range(const uint16_t* x, int64_t n, float* y) {
  const hn::ScalableTag<uint32_t> d32;
  const hn::Rebind<uint16_t, decltype(d32)> d16;
  const int64_t lanes = lanes_of(d32);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, x + i)));
    hn::StoreU(hn::BitCast(FloatTag(), bits), FloatTag(), y + i);
  }
  for (; i < n; ++i) y[i] = from_bf16(x[i]);
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
namespace {
constexpr int64_t kElements = kPieceBytes / 6;  // 4 bytes on one side, 2 on the other
}
HWY_EXPORT(narrow_range);
HWY_EXPORT(widen_range);

void convert_to_bf16(const float* x, int64_t n, uint16_t* y) {
  const auto range = HWY_DYNAMIC_DISPATCH(narrow_range);
  parallel_ranges(n, kElements,
                  [&](int64_t begin, int64_t end) { range(x + begin, end - begin, y + begin); });
}

void convert_from_bf16(const uint16_t* x, int64_t n, float* y) {
  const auto range = HWY_DYNAMIC_DISPATCH(widen_range);
  parallel_ranges(n, kElements,
                  [&](int64_t begin, int64_t end) { range(x + begin, end - begin, y + begin); });
}

void convert_to_bf16_row(const float* x, int64_t n, uint16_t* y) {
  HWY_DYNAMIC_DISPATCH(narrow_range)(x, n, y);
}

}  // namespace lockstep::kernels
#endif
