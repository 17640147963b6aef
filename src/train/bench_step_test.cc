// The numbers of `lockstep bench step` hang together; how large they are is for ./dev bench.
#include "train/bench_step.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

TEST(BenchStep, FieldsHangTogether) {
  const auto result =
      bench_step(real_clock(), {.shape = "tiny", .steps = 3, .warmup = 0, .measure_peak = false});
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  const nlohmann::json json = to_json(*result);
  EXPECT_EQ(json.at("steps"), 3);
  EXPECT_EQ(json.at("parameters"), 804096);
  EXPECT_GT(json.at("step_ms_min").get<double>(), 0.0);
  EXPECT_GE(json.at("step_ms_median"), json.at("step_ms_min"));
  const double tokens_per_s = 12 * 64 * 1000.0 / json.at("step_ms_median").get<double>();
  EXPECT_DOUBLE_EQ(json.at("tokens_per_s").get<double>(), tokens_per_s);
  // nanoGPT's formula: 804,096 parameters without the 64 x 128 positions, 12 * 4 * 128 * 64 for attention.
  EXPECT_DOUBLE_EQ(json.at("gflops").get<double>(),
                   (6.0 * (804096 - 64 * 128) + 12.0 * 4 * 128 * 64) * tokens_per_s / 1e9);
  EXPECT_TRUE(json.at("gemm_peak_gflops").is_null());
  EXPECT_TRUE(json.at("peak_fraction").is_null());
  EXPECT_GT(json.at("rss_mb").get<double>(), 4 * 4 * 804096 / 1e6) << "weights, gradients, two moments";
  EXPECT_GT(json.at("first_step_s").get<double>(), 0.0);
}

TEST(BenchStep, UnknownShapesOfferTheNearest) {
  const Status status = bench_step(real_clock(), {.shape = "babby"}).status();
  EXPECT_EQ(status.code(), Code::kUsage);
  EXPECT_EQ(status.hint(), "did you mean baby?");
}

}  // namespace
}  // namespace lockstep
