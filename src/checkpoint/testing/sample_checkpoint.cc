#include "checkpoint/testing/sample_checkpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::testing {

/// What a run at `step` would save; the values differ from step to step.
Status save(FileSystem& files, int64_t step, int keep) {
  Tensors tensors(static_cast<uint64_t>(step));
  tensors.content.step = step;
  return save_checkpoint(files, "out", tensors.content, nlohmann::json{{"seed", 7}, {"at", step}}, keep);
}

/// Loads and compares with what save() wrote at that step.
void expect_whole(FileSystem& files, const CheckpointInfo& info) {
  Tensors loaded(0, false);
  const Status status = load_checkpoint(files, info.path, loaded.content);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_EQ(loaded.content.step, info.step);
  EXPECT_EQ(loaded.all(), Tensors(static_cast<uint64_t>(info.step)).all());
  const auto state = read_checkpoint_state(files, info.path);
  ASSERT_TRUE(state.is_ok()) << state.status().message();
  EXPECT_EQ(state->at("at"), info.step);
}

std::vector<int64_t> steps_of(FileSystem& files) {
  std::vector<int64_t> steps;
  const auto all = list_checkpoints(files, "out");
  EXPECT_TRUE(all.is_ok());
  for (const CheckpointInfo& info : *all) steps.push_back(info.step);
  return steps;
}

Result<CheckpointInfo> find_quietly(FileSystem& files, std::vector<std::string>* warnings) {
  return find_latest_valid_checkpoint(files, "out", [&](const std::string& line) {
    if (warnings != nullptr) warnings->push_back(line);
  });
}

}  // namespace lockstep::testing
