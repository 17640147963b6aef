#include "kernels/gemm_peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::kernels {
namespace {

const std::vector<GemmProblem> kProblems = {{Transpose::kNo, Transpose::kYes, 96, 64, 32},
                                            {Transpose::kYes, Transpose::kNo, 64, 32, 96},
                                            {Transpose::kNo, Transpose::kYes, 96, 64, 32}};

class GemmPeakTest : public testing::TestWithParam<GemmType> {};

TEST_P(GemmPeakTest, RemembersTheBestOfItsCandidates) {
  GemmPeak peak(kProblems, GetParam());
  EXPECT_EQ(peak.candidate_count(), 2 * 3) << "two distinct problems and 2048^3, two ways each";
  EXPECT_EQ(peak.best_gflops(), 0.0);
  double before = 0.0;
  while (peak.run_count() < peak.candidate_count()) {
    const int64_t runs = peak.run_count();
    peak.sample(0.0);
    EXPECT_EQ(peak.run_count(), runs + 1);
    EXPECT_GE(peak.best_gflops(), before);
    before = peak.best_gflops();
  }
  EXPECT_GT(peak.best_gflops(), 0.0);
  EXPECT_THAT(peak.best_problem().text(),
              testing::AnyOf("2048x2048 = A B, k 2048", "96x64 = A B^T, k 32", "64x32 = A^T B, k 96"));
}

TEST_P(GemmPeakTest, ALongerBudgetStopsAfterOneRound) {
  GemmPeak peak({}, GetParam());
  peak.sample(1e9);
  EXPECT_EQ(peak.run_count(), 2);
  EXPECT_EQ(peak.best_problem().text(), "2048x2048 = A B, k 2048");
}

TEST_P(GemmPeakTest, ShortensWhatIsTooLarge) {
  GemmPeak peak({{Transpose::kNo, Transpose::kYes, 256, 1 << 20, 768}}, GetParam(), size_t{4} << 20);
  peak.sample(0.0);  // would need 4 GB otherwise
  EXPECT_EQ(peak.candidate_count(), 4);
}

INSTANTIATE_TEST_SUITE_P(Types, GemmPeakTest, testing::Values(GemmType::kFp32, GemmType::kBf16),
                         [](const auto& type) { return type.param == GemmType::kFp32 ? "Fp32" : "Bf16"; });

}  // namespace
}  // namespace lockstep::kernels
