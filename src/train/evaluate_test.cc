#include "train/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "tensor/buffer.h"

namespace lockstep {
namespace {

constexpr int64_t kTime = 8;

GptConfig shape() {
  GptConfig config;
  config.n_layer = 1;
  config.n_head = 2;
  config.n_embd = 16;
  config.block_size = kTime;
  config.vocab_size = 13;
  config.dropout = 0.5f;
  return config;
}

class EvaluateTest : public testing::Test {
 protected:
  EvaluateTest()
      : gpt_(shape(), ComputeType::kFp32, 3, kTime),
        params_(static_cast<size_t>(gpt_.parameters().flat_count()) * sizeof(float)) {
    gpt_.parameters().initialise(4, params_.floats());
    // Larger than at a real start, so that the loss is not ln V everywhere.
    for (const ParameterSpec& spec : gpt_.parameters().specs())
      for (int64_t i = 0; i < spec.count && spec.decays; ++i) params_.floats()[spec.offset + i] *= 20.0f;
    gpt_.parameters_changed(params_.floats());
    const RandomStream random(8, Purpose::kTest);
    for (uint64_t i = 0; i < 300; ++i) ids_.push_back(static_cast<uint16_t>(random.below(i, 13)));
  }
  static bool always() { return true; }
  static bool go_on(int64_t, int64_t) { return true; }

  Gpt gpt_;
  Buffer params_;
  std::vector<uint16_t> ids_;
};

/// Mean cross-entropy of the first `count` tokens in double, from logits.
double mean_from_logits(Gpt& gpt, const float* params, const std::vector<uint16_t>& ids, size_t count) {
  const int64_t V = gpt.config().vocab_size;
  double sum = 0.0;
  for (size_t start = 0; start + 1 < count; start += kTime) {
    const auto time = static_cast<int64_t>(std::min<size_t>(kTime, count - 1 - start));
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(start);
    const std::vector<int32_t> x(begin, begin + time);
    std::vector<float> logits(static_cast<size_t>(time * V));
    gpt.logits({1, time, x.data(), x.data(), nullptr}, params, logits.data());
    for (int64_t t = 0; t < time; ++t) {
      const auto logit = [&](int64_t v) {
        return static_cast<double>(logits[static_cast<size_t>(t * V + v)]);
      };
      double total = 0.0;
      for (int64_t v = 0; v < V; ++v) total += std::exp(logit(v));
      sum += std::log(total) - logit(ids[start + static_cast<size_t>(t) + 1]);
    }
  }
  return sum / static_cast<double>(count - 1);
}

TEST_F(EvaluateTest, WholeSplitPredictsEveryTokenOnce) {
  // Lengths around block and micro-batch borders (3 rows of 8).
  for (const size_t count : {9u, 10u, 16u, 17u, 18u, 25u, 26u, 49u, 300u}) {
    Evaluator evaluator(gpt_, 3, 1);
    const auto result = evaluator.whole_split(std::span(ids_).first(count), params_.floats(), go_on);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->tokens, static_cast<int64_t>(count) - 1);
    const double expected = mean_from_logits(gpt_, params_.floats(), ids_, count);
    // A loss is a difference of fp32 numbers of the size of the logits, summed in double afterwards; the
    // passes differ in how products of up to 64 terms are grouped.
    const double tolerance =
        64.0 * static_cast<double>(std::numeric_limits<float>::epsilon()) * std::max(1.0, expected);
    EXPECT_NEAR(result->loss, expected, tolerance) << count;
  }
}

TEST_F(EvaluateTest, RandomRowsAreTheSameEveryTimeAndDifferBySplitAndSeed) {
  Evaluator evaluator(gpt_, 3, 1), other_seed(gpt_, 3, 2);
  const auto first = evaluator.random_rows(ids_, Split::kVal, 20, params_.floats(), always);
  const auto second = evaluator.random_rows(ids_, Split::kVal, 20, params_.floats(), always);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->loss, second->loss);
  EXPECT_EQ(first->tokens, 20 * kTime);
  const auto train = evaluator.random_rows(ids_, Split::kTrain, 20, params_.floats(), always);
  const auto other = other_seed.random_rows(ids_, Split::kVal, 20, params_.floats(), always);
  ASSERT_TRUE(train && other);
  EXPECT_NE(first->loss, train->loss);
  EXPECT_NE(first->loss, other->loss);
}

TEST_F(EvaluateTest, GivesUpWhenTold) {
  Evaluator evaluator(gpt_, 3, 1);
  int asked = 0;
  EXPECT_FALSE(evaluator.random_rows(ids_, Split::kVal, 20, params_.floats(), [&] { return ++asked < 3; })
                   .has_value());
  EXPECT_EQ(asked, 3);
  EXPECT_FALSE(evaluator.whole_split(ids_, params_.floats(), [](int64_t done, int64_t) { return done == 0; })
                   .has_value());
}

}  // namespace
}  // namespace lockstep
