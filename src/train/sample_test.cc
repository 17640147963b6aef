#include "train/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/random.h"
#include "train/stored_model.h"
#include "train/testing/small_run.h"

namespace lockstep {
namespace {

using lockstep::testing::Machine;
using ::testing::HasSubstr;

TEST(DrawToken, FollowsTheProbabilities) {
  const std::vector<float> logits = {1.0f, -0.5f, 0.0f, 2.0f, -3.0f};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    double total = 0.0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit) / temperature);
    constexpr int kDraws = 10000;
    std::vector<int> counts(logits.size());
    for (int i = 0; i < kDraws; ++i)
      ++counts[static_cast<size_t>(draw_token(logits, temperature, 0, (i + 0.5) / kDraws))];
    // On an even grid of marks each interval holds its share of them, up to one at either end.
    for (size_t i = 0; i < logits.size(); ++i)
      EXPECT_NEAR(counts[i], kDraws * std::exp(static_cast<double>(logits[i]) / temperature) / total, 1.0);
  }
}

TEST(DrawToken, TopKLeavesOnlyTheLargest) {
  const std::vector<float> logits = {1.0f, -0.5f, 0.0f, 2.0f, 1.0f};
  std::vector<int> counts(logits.size());
  for (int i = 0; i < 1000; ++i) ++counts[static_cast<size_t>(draw_token(logits, 1.0, 2, i / 1000.0))];
  EXPECT_GT(counts[0], 0);
  EXPECT_EQ(counts[1], 0);
  EXPECT_EQ(counts[2], 0);
  EXPECT_GT(counts[3], 0);
  EXPECT_GT(counts[4], 0) << "as large as the second largest";
  for (const double mark : {0.0, 0.5, 0.999999}) EXPECT_EQ(draw_token(logits, 1.0, 1, mark), 3);
}

TEST(DrawToken, TemperatureZeroAndExtremes) {
  EXPECT_EQ(draw_token(std::vector<float>{0.0f, 5.0f, 5.0f}, 0.0, 0, 0.9), 1);
  EXPECT_EQ(draw_token(std::vector<float>{-1e30f, 1e30f, 0.0f}, 1.0, 0, 0.0), 1);
  EXPECT_EQ(draw_token(std::vector<float>{3.0f, -1e30f}, 1.0, 0, std::nextafter(1.0, 0.0)), 0)
      << "a token of probability 0 is never drawn";
  EXPECT_EQ(draw_token(std::vector<float>{3.0f}, 1.0, 200, 0.5), 0);
}

class SampleTest : public ::testing::Test {
 protected:
  static Machine& trained() {
    static Machine* const machine = [] {
      auto* made = new Machine;
      EXPECT_TRUE(made->run(lockstep::testing::small_run()).is_ok());
      return made;
    }();
    return *machine;
  }
  static std::string text(const SampleOptions& options) {
    std::string written;
    const Status status = sample(
        trained().files, options, [&](std::string_view part) { written += part; }, [] { return true; });
    EXPECT_TRUE(status.is_ok()) << status.message();
    return written;
  }
  static Status failure(const SampleOptions& options) {
    const Status status = sample(trained().files, options, [](std::string_view) {}, [] { return true; });
    EXPECT_FALSE(status.is_ok());
    return status;
  }
  static SampleOptions options() {
    SampleOptions made;
    made.out_dir = "out";
    made.prompt = "am bn";
    made.max_new_tokens = 100;  // six times the model's context
    return made;
  }
};

TEST_F(SampleTest, ContinuesThePromptAndRepeatsForTheSameSeed) {
  const std::string first = text(options());
  EXPECT_EQ(first.size(), 5u + 100u + 1u) << "prompt, tokens of one byte each, line end";
  EXPECT_TRUE(first.starts_with("am bn"));
  EXPECT_EQ(first, text(options()));
  SampleOptions other = options();
  other.seed = 2;
  EXPECT_NE(first, text(other));
}

TEST_F(SampleTest, CountGivesDifferentSamplesTheFirstBeingTheSame) {
  SampleOptions two = options();
  two.count = 2;
  const std::string both = text(two), one = text(options());
  EXPECT_TRUE(both.starts_with(one.substr(0, one.size() - 1)));
  const size_t line = both.find("\n---------------\n");
  ASSERT_NE(line, std::string::npos);
  EXPECT_NE(both.substr(line + 17), one);
}

TEST_F(SampleTest, ContextLongerThanTheBlockIsCut) {
  SampleOptions longer = options();
  longer.prompt = lockstep::testing::some_text(1).substr(0, 50);
  EXPECT_TRUE(text(longer).starts_with(longer.prompt));
}

TEST_F(SampleTest, PromptFromAFile) {
  ASSERT_TRUE(write_file_atomically(trained().files, "prompt.txt", "cp do").is_ok());
  SampleOptions file = options();
  file.prompt = "FILE:prompt.txt";
  EXPECT_TRUE(text(file).starts_with("cp do"));
  file.prompt = "FILE:nothing.txt";
  EXPECT_THAT(failure(file).message(), HasSubstr("nothing.txt"));
}

TEST_F(SampleTest, DefaultPromptIsALineBreak) {
  SampleOptions line = options();
  line.prompt = SampleOptions().prompt;
  EXPECT_TRUE(text(line).starts_with("\n"));
}

TEST_F(SampleTest, MistakesAreNamed) {
  SampleOptions unknown = options();
  unknown.prompt = "am Zn";
  EXPECT_EQ(failure(unknown).code(), Code::kData);
  EXPECT_THAT(failure(unknown).message(), HasSubstr("Z"));
  SampleOptions empty = options();
  empty.prompt = "";
  EXPECT_EQ(failure(empty).code(), Code::kUsage);
  SampleOptions nowhere = options();
  nowhere.out_dir = "elsewhere";
  EXPECT_EQ(failure(nowhere).code(), Code::kUsage);
  SampleOptions cold = options();
  cold.temperature = -1.0;
  EXPECT_THAT(failure(cold).message(), HasSubstr("--temperature -1"));
  SampleOptions none = options();
  none.count = 0;
  EXPECT_THAT(failure(none).message(), HasSubstr("--count 0"));
}

TEST_F(SampleTest, OneCheckpointCanBeNamed) {
  SampleOptions older = options();
  older.out_dir = "out/checkpoints/9";
  EXPECT_TRUE(text(older).starts_with("am bn"));
}

TEST_F(SampleTest, DescribesEveryCheckpointAndItsDamage) {
  Machine machine;
  ASSERT_TRUE(machine.run(lockstep::testing::small_run()).is_ok());
  const auto sound = describe_checkpoints(machine.files, "out");
  ASSERT_TRUE(sound.is_ok()) << sound.status().message();
  for (const char* part : {"out/checkpoints/10: sound", "out/checkpoints/9: sound", "10 of 10",
                           "shakespeare-char-cpu", "14 characters", "whole validation set"})
    EXPECT_THAT(*sound, HasSubstr(part));
  machine.files.overwrite("out/checkpoints/10/model.safetensors", "x");
  const auto damaged = describe_checkpoints(machine.files, "out");
  ASSERT_TRUE(damaged.is_ok());
  EXPECT_THAT(*damaged, HasSubstr("out/checkpoints/10: damaged"));
  EXPECT_THAT(*damaged, HasSubstr("9 of 10"));
  machine.files.overwrite("out/checkpoints/9/state.json", "{}");
  EXPECT_EQ(describe_checkpoints(machine.files, "out").status().code(), Code::kData);
}

}  // namespace
}  // namespace lockstep
