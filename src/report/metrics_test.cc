#include "report/metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/testing/fault_file_system.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;
using testing::Fault;
using testing::FaultFileSystem;

constexpr const char* kPath = "out/metrics.jsonl";

std::vector<std::string> lines_of(const FaultFileSystem& files) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : files.content(kPath).value_or("")) {
    if (c != '\n') {
      line += c;
      continue;
    }
    lines.push_back(line);
    line.clear();
  }
  EXPECT_EQ(line, "") << "the file does not end with a whole line";
  return lines;
}

/// "run", "step 3", … of each line; every line must be an object.
std::vector<std::string> events_of(const FaultFileSystem& files) {
  std::vector<std::string> events;
  for (const std::string& line : lines_of(files)) {
    const Json parsed = Json::parse(line, nullptr, false);
    if (!parsed.is_object()) {
      events.push_back("not an object");
      continue;
    }
    std::string event = parsed.at("event");
    if (parsed.contains("step")) event += fmt::format(" {}", parsed.at("step").get<int64_t>());
    events.push_back(std::move(event));
  }
  return events;
}

StepEvent step_event(int64_t step) {
  StepEvent event;
  event.step = step;
  event.loss = 2.5;
  event.ranks.resize(1);
  return event;
}

MetricsWriter open(FaultFileSystem& files, std::optional<int64_t> resume_step = std::nullopt) {
  auto writer = MetricsWriter::open(files, "out", resume_step);
  EXPECT_TRUE(writer.is_ok()) << writer.status().message();
  return std::move(writer).value();
}

TEST(Metrics, StepLineHasEveryFieldOfTheContract) {
  FaultFileSystem files;
  MetricsWriter writer = open(files);
  const StepEvent event{
      .step = 7,
      .loss = 2.25,
      .lr = 0.001,
      .grad_norm = 0.5,
      .tokens = 768,
      .step_ms = 40.5,
      .tokens_per_s = 18963.0,
      .lineage = "a1b2",
      .generation = 3,
      .world_size = 2,
      .ranks =
          {{.rows = 8, .samples = {{0, 6}, {10, 12}}, .compute_ms = 30.5, .wait_ms = 1.25, .cpu_mhz = 2600.0},
           {.rows = 4, .samples = {{6, 10}}, .compute_ms = 28.0, .wait_ms = 3.75, .cpu_mhz = {}}},
      .comm_ms = 9.0,
      .comm_exposed_ms = 2.0,
      .comm_bytes = 3216384,
      .comm_predicted_ms = 8.5,
      .params_hash = "00ff",
      .t_unix_s = 1700000000.25};
  ASSERT_TRUE(writer.write_step(event).is_ok());
  EXPECT_EQ(
      files.content(kPath),
      "{\"event\":\"step\",\"step\":7,\"loss\":2.25,\"lr\":0.001,\"grad_norm\":0.5,\"tokens\":768,"
      "\"step_ms\":40.5,\"tokens_per_s\":18963.0,\"lineage\":\"a1b2\",\"generation\":3,\"world_size\":2,"
      "\"rows\":[8,4],\"samples\":[[[0,6],[10,12]],[[6,10]]],\"compute_ms\":[30.5,28.0],"
      "\"wait_ms\":[1.25,3.75],\"cpu_mhz\":[2600.0,null],\"comm_ms\":9.0,\"comm_exposed_ms\":2.0,"
      "\"comm_bytes\":3216384,\"comm_predicted_ms\":8.5,\"params_hash\":\"00ff\",\"t_unix_s\":1700000000.25}"
      "\n");
}

TEST(Metrics, UnknownAndNonFiniteNumbersAreNull) {
  FaultFileSystem files;
  MetricsWriter writer = open(files);
  StepEvent event = step_event(1);
  event.loss = std::nan("");
  event.grad_norm = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(writer.write_step(event).is_ok());
  const Json line = Json::parse(lines_of(files).at(0));
  for (const char* field : {"loss", "grad_norm", "comm_predicted_ms", "params_hash"})
    EXPECT_TRUE(line.at(field).is_null()) << field;
  EXPECT_TRUE(line.at("cpu_mhz").at(0).is_null());
  EXPECT_TRUE(line.at("lr").is_number());
}

TEST(Metrics, TheOtherEvents) {
  FaultFileSystem files;
  MetricsWriter writer = open(files);
  ASSERT_TRUE(writer.write_run(Json{{"threads", 2}, {"event", "mine"}}, 1.5).is_ok());
  ASSERT_TRUE(
      writer
          .write_eval(
              {.step = 4, .train_loss = {}, .val_loss = 2.5, .tokens = 99, .eval_ms = 3.5, .full = true}, 2.5)
          .is_ok());
  ASSERT_TRUE(writer.write_eval({.step = 5, .train_loss = 1.5, .val_loss = 2.5, .tokens = 0}, 2.75).is_ok());
  ASSERT_TRUE(writer.write_checkpoint(5, "out/checkpoints/5", 12.5, 3.5).is_ok());
  ASSERT_TRUE(writer.write_end(5, "interrupted", 4.5).is_ok());
  const std::vector<std::string> expected{
      R"({"event":"run","t_unix_s":1.5,"threads":2})",
      std::string(R"({"event":"eval","step":4,"train_loss":null,"val_loss":2.5,"tokens":99,)") +
          R"("eval_ms":3.5,"full":true,"t_unix_s":2.5})",
      std::string(R"({"event":"eval","step":5,"train_loss":1.5,"val_loss":2.5,"tokens":0,)") +
          R"("eval_ms":0.0,"full":false,"t_unix_s":2.75})",
      R"({"event":"checkpoint","step":5,"path":"out/checkpoints/5","save_ms":12.5,"t_unix_s":3.5})",
      R"({"event":"end","step":5,"reason":"interrupted","t_unix_s":4.5})"};
  EXPECT_EQ(lines_of(files), expected);
}

TEST(Metrics, NumbersSurviveWithEveryBit) {
  FaultFileSystem files;
  MetricsWriter writer = open(files);
  StepEvent event = step_event(int64_t{1} << 53);
  event.loss = 0.1 + 0.2;
  event.lr = 1e-300;
  event.t_unix_s = 1764601846.123456;
  ASSERT_TRUE(writer.write_step(event).is_ok());
  const Json line = Json::parse(lines_of(files).at(0));
  EXPECT_EQ(line.at("step").get<int64_t>(), int64_t{1} << 53);
  EXPECT_EQ(line.at("loss").get<double>(), 0.1 + 0.2);
  EXPECT_EQ(line.at("lr").get<double>(), 1e-300);
  EXPECT_EQ(line.at("t_unix_s").get<double>(), 1764601846.123456);
}

TEST(Metrics, TextThatIsNotUtf8BecomesReadable) {
  FaultFileSystem files;
  MetricsWriter writer = open(files);
  ASSERT_TRUE(writer.write_checkpoint(1, "caf\xe9\n", 0.0, 0.0).is_ok());
  EXPECT_EQ(Json::parse(lines_of(files).at(0)).at("path"), "caf\xef\xbf\xbd\n");
}

TEST(Metrics, ResumingCutsWhatTheDeadRunDidAfterItsCheckpoint) {
  FaultFileSystem files;
  {
    MetricsWriter writer = open(files);
    ASSERT_TRUE(writer.write_run(Json::object(), 0).is_ok());
    for (int64_t step = 1; step <= 6; ++step) {
      ASSERT_TRUE(writer.write_step(step_event(step)).is_ok());
      if (step % 2 == 0) {
        ASSERT_TRUE(writer.write_eval({.step = step, .train_loss = {}}, 0).is_ok());
        ASSERT_TRUE(writer.write_checkpoint(step, "p", 0, 0).is_ok());
      }
    }
  }
  {
    MetricsWriter writer = open(files, 4);
    EXPECT_EQ(events_of(files), (std::vector<std::string>{"run", "step 1", "step 2", "eval 2", "checkpoint 2",
                                                          "step 3", "step 4", "eval 4", "checkpoint 4"}));
    ASSERT_TRUE(writer.write_run(Json::object(), 0).is_ok());
    ASSERT_TRUE(writer.write_step(step_event(5)).is_ok());
  }
  {
    // Died again at once; the second run's line stays, for nothing after it is cut but its step.
    MetricsWriter writer = open(files, 4);
    ASSERT_TRUE(writer.write_run(Json::object(), 0).is_ok());
    ASSERT_TRUE(writer.write_step(step_event(5)).is_ok());
    ASSERT_TRUE(writer.write_end(5, "done", 0).is_ok());
  }
  EXPECT_EQ(events_of(files),
            (std::vector<std::string>{"run", "step 1", "step 2", "eval 2", "checkpoint 2", "step 3", "step 4",
                                      "eval 4", "checkpoint 4", "run", "run", "step 5", "end 5"}));
  // Resuming at the end cuts nothing; resuming at step 0 leaves the run line.
  open(files, 5);
  EXPECT_EQ(events_of(files).size(), 13u);
  open(files, 0);
  EXPECT_EQ(events_of(files), std::vector<std::string>{"run"});
}

TEST(Metrics, ATornLastLineIsCutAtEveryLength) {
  FaultFileSystem files;
  {
    MetricsWriter writer = open(files);
    for (int64_t step = 1; step <= 3; ++step) ASSERT_TRUE(writer.write_step(step_event(step)).is_ok());
  }
  const std::string whole = files.content(kPath).value_or("");
  const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (size_t bytes = last; bytes < whole.size(); ++bytes)
    for (const auto& resume : {std::optional<int64_t>(), std::optional<int64_t>(3)}) {
      files.overwrite(kPath, whole.substr(0, bytes));
      MetricsWriter writer = open(files, resume);
      ASSERT_TRUE(writer.write_step(step_event(3)).is_ok());
      EXPECT_EQ(files.content(kPath), whole) << bytes;
    }
  files.overwrite(kPath, "{\"event\":\"st");
  open(files);
  EXPECT_EQ(files.content(kPath), "");
}

TEST(Metrics, ForeignLinesDoNotStopARun) {
  FaultFileSystem files;
  {
    open(files);
  }
  files.overwrite(kPath, std::string("not json\n[1]\n{\"step\":\"x\"}\n\n{\"step\":9}\n", 37) +
                             std::string(20, '\0') + "\n");
  MetricsWriter writer = open(files, 5);
  EXPECT_EQ(files.content(kPath), "not json\n[1]\n{\"step\":\"x\"}\n\n");
}

TEST(Metrics, WithoutResumeItAppends) {
  FaultFileSystem files;
  ASSERT_TRUE(open(files).write_step(step_event(9)).is_ok());
  ASSERT_TRUE(open(files).write_step(step_event(1)).is_ok());
  EXPECT_EQ(events_of(files), (std::vector<std::string>{"step 9", "step 1"}));
}

TEST(Metrics, FailedWritesAreReportedAndLeaveNoHalfLines) {
  for (const Fault fault : {Fault::kIoError, Fault::kNoSpace, Fault::kShortWrite}) {
    FaultFileSystem files;
    MetricsWriter writer = open(files);
    ASSERT_TRUE(writer.write_step(step_event(1)).is_ok());
    files.fail_at(files.operations(), fault);
    const Status status = writer.write_step(step_event(2));
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_NE(status.message().find(kPath), std::string::npos) << status.message();
    // The cut may fail too; then the line is not written either, and the next attempt cuts again.
    files.fail_at(files.operations(), fault);
    EXPECT_FALSE(writer.write_step(step_event(3)).is_ok());
    ASSERT_TRUE(writer.write_step(step_event(4)).is_ok());
    EXPECT_EQ(events_of(files), (std::vector<std::string>{"step 1", "step 4"}));
  }
}

TEST(Metrics, OpeningFailsCleanlyAtEveryOperation) {
  const auto prepare = [](FaultFileSystem& files) {
    ASSERT_TRUE(open(files).write_step(step_event(1)).is_ok());
    files.overwrite(kPath, files.content(kPath).value_or("") + "{\"torn");
  };
  FaultFileSystem probe;
  prepare(probe);
  const int64_t begin = probe.operations();
  open(probe, 1);
  const int64_t count = probe.operations() - begin;
  ASSERT_GE(count, 4);
  for (int64_t n = 0; n < count; ++n) {
    FaultFileSystem files;
    prepare(files);
    files.fail_at(files.operations() + n, Fault::kIoError);
    const auto opened = MetricsWriter::open(files, "out", 1);
    EXPECT_EQ(opened.status().code(), Code::kIo) << n;
    EXPECT_TRUE(opened.status().message().starts_with("cannot continue the metrics: cannot ")) << n;
    files.clear_faults();
    open(files, 1);
    EXPECT_EQ(events_of(files), std::vector<std::string>{"step 1"}) << n;
  }
}

TEST(Metrics, AfterACrashTheFileIsCutToWholeLines) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultFileSystem files;
    {
      MetricsWriter writer = open(files);
      ASSERT_TRUE(files.sync_directory("out").is_ok());
      for (int64_t step = 1; step <= 5; ++step) ASSERT_TRUE(writer.write_step(step_event(step)).is_ok());
    }
    files.restart(seed);
    MetricsWriter writer = open(files, 2);
    ASSERT_TRUE(writer.write_step(step_event(3)).is_ok());
    const std::vector<std::string> events = events_of(files);
    EXPECT_EQ(events.back(), "step 3");
    EXPECT_LE(events.size(), 3u);
    for (const std::string& event : events) EXPECT_TRUE(event.starts_with("step ")) << event;
  }
}

TEST(MetricsDeathTest, RanksMustMatchTheWorld) {
  FaultFileSystem files;
  MetricsWriter writer = open(files);
  StepEvent event = step_event(1);
  event.world_size = 2;
  EXPECT_DEATH(static_cast<void>(writer.write_step(event)), "1 != 2");
}

}  // namespace
}  // namespace lockstep
