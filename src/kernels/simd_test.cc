// The building blocks of simd-inl.h, on every instruction set.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/testing/for_each_isa.h"
#include "kernels/testing/guarded_buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd_test.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

void test_exp(const float* x, int64_t n, float* y) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(exp_up_to_88(d, hn::LoadU(d, x + i)), d, y + i);
  if (i < n) store_partial(exp_up_to_88(d, load_partial(d, x + i, n - i)), d, y + i, n - i);
}

// Copies n < lanes elements; returns the sum of all lanes, which shows what the others were.
float test_partial(const float* x, int64_t n, float* y) {
  const FloatTag d;
  const auto v = load_partial(d, x, n);
  store_partial(v, d, y, n);
  return reduce_sum(d, v);
}

int64_t test_lanes() {
  return lanes_of(FloatTag());
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(test_exp);
HWY_EXPORT(test_partial);
HWY_EXPORT(test_lanes);
namespace {

using testing::GuardedBuffer;

TEST(Simd, ExpIsWithinItsUlps) {
  std::vector<float> x;
  for (int i = 0; i <= 1000003; ++i) x.push_back(-87.336f + 175.336f * static_cast<float>(i) / 1000003.0f);
  for (float small = 1e-45f; small < 1.0f; small *= 1.7f) {
    x.push_back(small);
    x.push_back(-small);
  }
  const auto n = static_cast<int64_t>(x.size());
  testing::for_each_isa([&](const std::string& isa) {
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(test_exp)(x.data(), n, y.data());
    double worst = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(double{x[i]});
      const double relative = std::fabs(y[i] - want) / want;
      worst = std::fmax(worst, relative);
      ASSERT_LE(relative, 0x1p-23) << "exp(" << x[i] << ") got " << y[i] << " want " << want;
    }
    RecordProperty("ulp_max_" + isa, std::to_string(worst / 0x1p-23));
  });
}

TEST(Simd, ExpOfSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float x[] = {-infinity, -88.0f, -1e38f, 0.0f, -0.0f, std::nanf("")};
  testing::for_each_isa([&](const std::string&) {
    float y[6];
    HWY_DYNAMIC_DISPATCH(test_exp)(x, 6, y);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), 0u) << x[i];
    EXPECT_EQ(y[3], 1.0f);
    EXPECT_EQ(y[4], 1.0f);
    EXPECT_TRUE(std::isnan(y[5]));
  });
}

TEST(Simd, PartialAccessTouchesOnlyItsElements) {
  testing::for_each_isa([&](const std::string&) {
    const int64_t lanes = HWY_DYNAMIC_DISPATCH(test_lanes)();
    for (int64_t n = 0; n < lanes; ++n) {
      for (const auto edge : {testing::Edge::kEnd, testing::Edge::kStart}) {
        GuardedBuffer<float> x(n, edge), y(n, edge), more(n + 1);
        float sum = 0.0f;
        for (int64_t i = 0; i < n; ++i) sum += x[i] = static_cast<float>(i + 1);
        EXPECT_EQ(HWY_DYNAMIC_DISPATCH(test_partial)(x.data(), n, y.data()), sum);
        EXPECT_TRUE(testing::same_bits(x.data(), y.data(), n));
        more[n] = 77.0f;
        HWY_DYNAMIC_DISPATCH(test_partial)(x.data(), n, more.data());
        EXPECT_EQ(more[n], 77.0f);
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::kernels
#endif
