// What a run writes, and that stopping and resuming it gives the same bits.
#include "train/run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "train/testing/small_run.h"

namespace lockstep {
namespace {

using lockstep::testing::Machine;
using lockstep::testing::resumed_run;
using lockstep::testing::setting;
using lockstep::testing::small_run;
using lockstep::testing::some_text;
using lockstep::testing::undisturbed;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr int64_t kSteps = lockstep::testing::kSmallRunSteps;

/// What must be equal in two runs of the same bits.
std::vector<std::string> numbers_of_steps(const Machine& machine) {
  std::vector<std::string> lines;
  for (const json& event : machine.events("step"))
    lines.push_back(fmt::format("{} {} {} {} {} {}", event.at("step").dump(), event.at("loss").dump(),
                                event.at("lr").dump(), event.at("grad_norm").dump(),
                                event.at("tokens").dump(), event.at("params_hash").dump()));
  return lines;
}

std::vector<std::string> numbers_of_evaluations(const Machine& machine) {
  std::vector<std::string> lines;
  for (const json& event : machine.events("eval"))
    lines.push_back(fmt::format("{} {} {} {}", event.at("step").dump(), event.at("train_loss").dump(),
                                event.at("val_loss").dump(), event.at("full").dump()));
  return lines;
}

void expect_same_run(const Machine& a, const Machine& b) {
  EXPECT_EQ(numbers_of_steps(a), numbers_of_steps(b));
  EXPECT_EQ(numbers_of_evaluations(a), numbers_of_evaluations(b));
  EXPECT_EQ(a.tensors(kSteps), b.tensors(kSteps));
}

class RunTest : public ::testing::Test {
  lockstep::testing::QuietLog quiet_;  // damaged checkpoints are announced: not here
};

TEST_F(RunTest, WritesEveryStepEvaluationAndCheckpoint) {
  Machine& machine = undisturbed();
  const auto steps = machine.events("step");
  ASSERT_EQ(steps.size(), static_cast<size_t>(kSteps));
  for (size_t i = 0; i < steps.size(); ++i) {
    const size_t step = i + 1;
    EXPECT_EQ(steps[i].at("step"), step);
    EXPECT_EQ(steps[i].at("tokens"), 5 * 16);
    EXPECT_EQ(steps[i].at("samples"), json::parse("[[[0, 5]]]"));
    EXPECT_EQ(steps[i].at("params_hash").is_null(), step % 3 != 0 && step != 10);
  }
  EXPECT_DOUBLE_EQ(steps[0].at("lr").get<double>(), 1e-3 / 3.0) << "first of two warm-up steps";
  EXPECT_LT(steps[9].at("loss").get<double>(), steps[0].at("loss").get<double>());
  const auto evaluations = machine.events("eval");
  ASSERT_EQ(evaluations.size(), 3u);
  EXPECT_EQ(evaluations[0].at("step"), 4);
  EXPECT_EQ(evaluations[1].at("step"), 8);
  EXPECT_EQ(evaluations[2].at("step"), kSteps);
  EXPECT_EQ(evaluations[2].at("full"), true);
  EXPECT_EQ(evaluations[2].at("tokens"), 119) << "a tenth of 1200 characters; the first has no context";
  EXPECT_EQ(machine.events("checkpoint").size(), 4u);
  ASSERT_EQ(machine.events("end").size(), 1u);
  EXPECT_EQ(machine.events("end")[0].at("reason"), "done");
  EXPECT_EQ(machine.events("run").size(), 1u);
  const auto kept = list_checkpoints(machine.files, "out");
  ASSERT_TRUE(kept.is_ok());
  ASSERT_EQ(kept->size(), 2u) << "keep_checkpoints is 2";
  EXPECT_EQ((*kept)[0].step, kSteps);
}

TEST_F(RunTest, SaysWhatItWillDo) {
  const std::string& shown = undisturbed().shown;
  for (const char* text : {"recipe shakespeare-char-cpu: 10 steps", "number of parameters 0.00M", "text.txt",
                           "1 thread", "memory: ", "activations", "expected time", "whole validation set"})
    EXPECT_THAT(shown, HasSubstr(text));
}

TEST_F(RunTest, ExtendingAFinishedRunGivesTheSameBits) {
  for (const int64_t part : {1, 4, 5, 8}) {
    Machine machine;
    TrainRequest first = small_run();
    first.settings.push_back(setting("max_iters", part));
    ASSERT_TRUE(machine.run(first).is_ok());
    TrainRequest second = resumed_run();
    second.settings.push_back(setting("max_iters", kSteps));
    const auto summary = machine.run(second);
    ASSERT_TRUE(summary.is_ok()) << summary.status().message();
    EXPECT_EQ(undisturbed().tensors(kSteps), machine.tensors(kSteps)) << "stopped after " << part;
    EXPECT_EQ(undisturbed().events("step").back().at("loss"), machine.events("step").back().at("loss"));
    EXPECT_EQ(machine.events("step").size(), static_cast<size_t>(kSteps));
  }
}

TEST_F(RunTest, InterruptedAnywhereGivesTheSameBits) {
  for (const char* moment : {"expected time", "step 1/10", "step 4: train loss", "step 8: train loss"}) {
    Machine machine;
    machine.stop_at = moment;
    const auto stopped = machine.run(small_run());
    ASSERT_TRUE(stopped.is_ok()) << stopped.status().message();
    ASSERT_TRUE(stopped->interrupted) << moment;
    EXPECT_LT(stopped->step, kSteps);
    EXPECT_THAT(machine.shown, HasSubstr("lockstep train --resume --out-dir out"));
    EXPECT_EQ(machine.events("end").back().at("reason"), "interrupted");
    machine.stop_at.clear();
    const auto summary = machine.run(resumed_run());
    ASSERT_TRUE(summary.is_ok()) << summary.status().message();
    EXPECT_FALSE(summary->interrupted);
    expect_same_run(undisturbed(), machine);
  }
}

TEST_F(RunTest, InterruptedBeforeTheLastEvaluationKeepsTheModel) {
  Machine machine;
  machine.stop_at = "step 10/10";
  const auto stopped = machine.run(small_run());
  ASSERT_TRUE(stopped.is_ok());
  EXPECT_TRUE(stopped->interrupted);
  EXPECT_EQ(stopped->step, kSteps);
  machine.stop_at.clear();
  ASSERT_TRUE(machine.run(resumed_run()).is_ok());
  expect_same_run(undisturbed(), machine);
}

TEST_F(RunTest, ResumingAFinishedRunChangesNothing) {
  Machine machine;
  ASSERT_TRUE(machine.run(small_run()).is_ok());
  const std::string before = machine.tensors(kSteps);
  const auto summary = machine.run(resumed_run());
  ASSERT_TRUE(summary.is_ok()) << summary.status().message();
  EXPECT_EQ(before, machine.tensors(kSteps));
  EXPECT_TRUE(summary->val_loss.has_value());
  EXPECT_EQ(machine.events("eval").size(), 3u);
}

TEST_F(RunTest, PassSamplingResumesWhereItWas) {
  TrainRequest request = small_run();
  request.settings.push_back(setting("sampling", std::string("pass")));
  Machine whole, parts;
  ASSERT_TRUE(whole.run(request).is_ok());
  parts.stop_at = "step 4: train loss";
  ASSERT_TRUE(parts.run(request).is_ok());
  parts.stop_at.clear();
  ASSERT_TRUE(parts.run(resumed_run()).is_ok());
  expect_same_run(whole, parts);
  EXPECT_NE(whole.tensors(kSteps), undisturbed().tensors(kSteps));
}

TEST_F(RunTest, ThreadsAndEvaluationsDoNotChangeTheResult) {
  TrainRequest request = small_run();
  request.settings.push_back(setting("threads", int64_t{3}));
  request.settings.push_back(setting("eval_interval", int64_t{1}));
  Machine machine;
  ASSERT_TRUE(machine.run(request).is_ok());
  EXPECT_EQ(numbers_of_steps(undisturbed()), numbers_of_steps(machine));
}

TEST_F(RunTest, SeedChangesEverything) {
  TrainRequest request = small_run();
  request.settings.push_back(setting("seed", int64_t{7}));
  Machine machine;
  ASSERT_TRUE(machine.run(request).is_ok());
  EXPECT_NE(undisturbed().events("step")[0].at("loss"), machine.events("step")[0].at("loss"));
}

TEST_F(RunTest, NonFiniteNumbersStopBeforeTheyAreApplied) {
  // A decay of 1 - 9 * 9 multiplies every weight by -80 a step, until they overflow.
  TrainRequest request = small_run();
  request.settings.push_back(setting("learning_rate", 9.0));
  request.settings.push_back(setting("weight_decay", 9.0));
  request.settings.push_back(setting("decay_lr", false));
  request.settings.push_back(setting("max_iters", int64_t{100}));
  Machine machine;
  const auto result = machine.run(request);
  ASSERT_FALSE(result.is_ok());
  EXPECT_EQ(result.status().code(), Code::kNonFinite);
  const auto steps = machine.events("step");
  ASSERT_GT(steps.size(), 3u);
  for (const json& step : steps) EXPECT_TRUE(step.at("loss").is_number()) << "only finite steps were applied";
  const auto last = steps.back().at("step").get<int64_t>();
  EXPECT_THAT(result.status().message(), HasSubstr(fmt::format("step {}", last + 1)));
  EXPECT_THAT(result.status().hint(), HasSubstr(fmt::format("out/checkpoints/{}", last)));
  const auto kept = find_latest_valid_checkpoint(machine.files, "out");
  ASSERT_TRUE(kept.is_ok());
  EXPECT_EQ(kept->step, last);
  EXPECT_EQ(machine.events("end").back().at("reason"), "error");
}

TEST_F(RunTest, DamagedNewestCheckpointFallsBackToTheOneBefore) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    Machine machine;
    machine.stop_at = "step 8: train loss";
    ASSERT_TRUE(machine.run(small_run()).is_ok());
    machine.stop_at.clear();
    const std::string path = fmt::format("out/checkpoints/8/{}", file);
    std::string content = machine.files.content(path).value();
    content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 4);
    machine.files.overwrite(path, content);
    const auto summary = machine.run(resumed_run());
    ASSERT_TRUE(summary.is_ok()) << summary.status().message();
    EXPECT_THAT(machine.shown, HasSubstr("resuming from out/checkpoints/6"));
    expect_same_run(undisturbed(), machine);
  }
}

TEST_F(RunTest, EveryCheckpointDamagedIsAnErrorThatNamesOne) {
  Machine machine;
  ASSERT_TRUE(machine.run(small_run()).is_ok());
  for (const int64_t step : {9, 10})
    machine.files.overwrite(fmt::format("out/checkpoints/{}/model.safetensors", step), "short");
  const auto result = machine.run(resumed_run());
  ASSERT_FALSE(result.is_ok());
  EXPECT_EQ(result.status().code(), Code::kData);
  EXPECT_THAT(result.status().message(), HasSubstr("out/checkpoints/10"));
}

// ---- what users get wrong ------------------------------------------------------------------------------

Status failure(Machine& machine, const TrainRequest& request) {
  const auto result = machine.run(request);
  EXPECT_FALSE(result.is_ok());
  return result.status();
}

TEST_F(RunTest, FolderWithSomethingInItNeedsResume) {
  Machine machine;
  ASSERT_TRUE(machine.run(small_run()).is_ok());
  const std::string before = machine.files.content("out/metrics.jsonl").value();
  const Status status = failure(machine, small_run());
  EXPECT_EQ(status.code(), Code::kUsage);
  EXPECT_THAT(status.hint(), HasSubstr("--resume"));
  EXPECT_THAT(status.hint(), HasSubstr("--out-dir out-2"));
  EXPECT_EQ(before, machine.files.content("out/metrics.jsonl").value());
}

TEST_F(RunTest, FolderOfARunningRunIsLeftAlone) {
  Machine machine;
  ASSERT_TRUE(machine.run(small_run()).is_ok());
  const std::vector<std::string> paths = machine.files.paths();
  const auto metrics = machine.files.content("out/metrics.jsonl");
  machine.files.set_locked_elsewhere(true);
  TrainRequest more = resumed_run();
  more.settings.push_back(setting("max_iters", int64_t{kSteps + 3}));
  const auto refused = machine.run(more);
  ASSERT_FALSE(refused.is_ok());
  EXPECT_EQ(refused.status().code(), Code::kUsage);
  EXPECT_THAT(refused.status().message(), HasSubstr("cannot train into out: "));
  EXPECT_EQ(machine.files.paths(), paths);
  EXPECT_EQ(machine.files.content("out/metrics.jsonl"), metrics);
  machine.files.set_locked_elsewhere(false);
  EXPECT_TRUE(machine.run(more).is_ok());
}

TEST_F(RunTest, ResumeNeedsSomethingToResume) {
  Machine machine;
  EXPECT_THAT(failure(machine, resumed_run()).message(), HasSubstr("no such folder"));
  ASSERT_TRUE(machine.files.create_directories("out").is_ok());
  EXPECT_THAT(failure(machine, resumed_run()).message(), HasSubstr("no checkpoint"));
  EXPECT_EQ(failure(machine, resumed_run()).code(), Code::kUsage);
}

TEST_F(RunTest, ResumeRefusesAnotherRunAndNamesBothValues) {
  Machine machine;
  ASSERT_TRUE(machine.run(small_run()).is_ok());
  const std::pair<Setting, const char*> cases[] = {
      {setting("n_layer", int64_t{3}), "n_layer = 3 (--n_layer): the run has 1"},
      {setting("seed", int64_t{3}), "seed = 3 (--seed): the run has 1337"},
      {setting("batch_size", int64_t{6}), "batch_size = 6 (--batch_size): the run has 5"},
      {setting("vocab_size", int64_t{99}), "vocab_size = 99 (--vocab_size): the run has 14"},
      {setting("sampling", std::string("pass")), "sampling = 'pass'"}};
  for (const auto& [flag, message] : cases) {
    TrainRequest request = resumed_run();
    request.settings.push_back(flag);
    const Status status = failure(machine, request);
    EXPECT_EQ(status.code(), Code::kUsage);
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
  TrainRequest other_recipe = resumed_run();
  other_recipe.recipe = "gpt2-124m";
  EXPECT_THAT(failure(machine, other_recipe).message(), HasSubstr("started as shakespeare-char-cpu"));
  ASSERT_TRUE(write_file_atomically(machine.files, "text.txt", some_text(2)).is_ok());
  EXPECT_THAT(failure(machine, resumed_run()).message(), HasSubstr("learned from"));
}

TEST_F(RunTest, ResumeAllowsAndAnnouncesWhatChangesTheCourse) {
  Machine machine;
  machine.stop_at = "step 4: train loss";
  ASSERT_TRUE(machine.run(small_run()).is_ok());
  machine.stop_at.clear();
  TrainRequest request = resumed_run();
  request.settings.push_back(setting("learning_rate", 2e-3));
  ASSERT_TRUE(machine.run(request).is_ok());
  EXPECT_THAT(machine.shown, HasSubstr("learning_rate is now 0.002, was 0.001"));
}

TEST_F(RunTest, NanogptsInitFromResumes) {
  Machine machine;
  machine.stop_at = "step 4: train loss";
  ASSERT_TRUE(machine.run(small_run()).is_ok());
  machine.stop_at.clear();
  TrainRequest request = resumed_run();
  request.resume = false;
  request.settings.push_back(setting("init_from", std::string("resume")));
  ASSERT_TRUE(machine.run(request).is_ok());
  expect_same_run(undisturbed(), machine);
}

TEST_F(RunTest, VocabularyTooSmallForTheData) {
  Machine machine;
  TrainRequest request = small_run();
  request.settings.push_back(setting("vocab_size", int64_t{5}));
  EXPECT_THAT(failure(machine, request).message(), HasSubstr("vocab_size 5 is too small, the data needs 14"));
}

TEST_F(RunTest, EvalOnlyEvaluatesAndStops) {
  Machine machine;
  TrainRequest request = small_run();
  request.settings.push_back(setting("eval_only", true));
  const auto summary = machine.run(request);
  ASSERT_TRUE(summary.is_ok()) << summary.status().message();
  EXPECT_EQ(summary->step, 0);
  // Weights of 0.02 move logits by about 0.02 * sqrt(16) around 0: the mean loss stays that near to ln V.
  EXPECT_NEAR(*summary->val_loss, std::log(14.0), 0.1);
  EXPECT_TRUE(machine.events("step").empty());
}

TEST(ResumeCommand, QuotesForTheShell) {
  EXPECT_EQ(resume_command("out/x-1"), "lockstep train --resume --out-dir out/x-1");
  EXPECT_EQ(resume_command("my out"), "lockstep train --resume --out-dir 'my out'");
  EXPECT_EQ(resume_command("it's"), "lockstep train --resume --out-dir 'it'\\''s'");
}

}  // namespace
}  // namespace lockstep
