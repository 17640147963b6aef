// Checkpoints: OUT/checkpoints/STEP/ with model.safetensors, optimizer.safetensors and state.json.
//
// Written beside (STEP.tmp), synced, renamed, the parent synced: at every instant a crash leaves the last
// good one. state.json holds each file's SHA-256 and is written last. Reading verifies the hashes before
// anything is used. Byte-level description: docs/formats/checkpoint.md.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"
#include "checkpoint/safetensors.h"

namespace lockstep {

/// One tensor to save or to fill.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  float* data = nullptr;  ///< count = product of shape
};

/// Everything a checkpoint holds. `model` goes to model.safetensors under its names, `optimizer` to
/// optimizer.safetensors under its own (e.g. "exp_avg.NAME"). `state` is free JSON (recipe, step, seeds, data
/// hash…).
struct CheckpointContent {
  int64_t step = 0;  ///< updates applied so far
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> optimizer;
};

/// Writes OUT/checkpoints/STEP atomically and then removes older ones so that `keep` (>= 1) remain; a failed
/// removal is only a warning. A checkpoint of the same step that is already there and valid is kept.
Status save_checkpoint(FileSystem& files, const std::string& out_dir, const CheckpointContent& content,
                       const nlohmann::json& state, int keep);

struct CheckpointInfo {
  std::string path;
  int64_t step = 0;
};
/// Complete checkpoints under OUT (those with state.json), newest first. Leftover temporaries are not listed.
Result<std::vector<CheckpointInfo>> list_checkpoints(FileSystem& files, const std::string& out_dir);

/// state.json of one checkpoint, checked for version and shape; the tensors are not read.
Result<nlohmann::json> read_checkpoint_state(FileSystem& files, const std::string& path);

/// Verifies both files' hashes, then fills every tensor of content (names and shapes must match exactly, no
/// extra ones in the file). On any error nothing of content has been changed.
Status load_checkpoint(FileSystem& files, const std::string& path, CheckpointContent& content);
/// The same for model.safetensors alone (sampling).
Status load_model(FileSystem& files, const std::string& path, std::vector<NamedTensor>& model);

}  // namespace lockstep
