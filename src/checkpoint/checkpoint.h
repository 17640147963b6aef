// Checkpoints: OUT/checkpoints/STEP/ with model.safetensors, optimizer.safetensors and state.json.
//
// Written beside (STEP.tmp), synced, renamed, the parent synced: at every instant a crash leaves the last
// good one. state.json is written last, holds size and XXH3-128 of the two others, and ends with its own.
// Nothing is used before its hash has been verified; tensors go straight from memory to the file and from the
// mapping to memory, so neither way needs room for a second copy. Byte-level description:
// docs/formats/checkpoint.md.
//
// One process at a time writes to one OUT. Errors name the file and, where hashes or shapes differ, both.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"
#include "checkpoint/safetensors.h"

namespace lockstep {

/// Version that state.json carries; readers refuse greater ones.
inline constexpr int64_t kCheckpointVersion = 1;

/// One tensor to save or to fill.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  float* data = nullptr;  ///< count = product of shape
};

/// The same tensors as F32 entries for write_safetensors; the bytes are not copied.
std::vector<TensorEntry> entries_of(const std::vector<NamedTensor>& tensors);

/// The tensors of a checkpoint. `model` goes to model.safetensors under its names, `optimizer` to
/// optimizer.safetensors under its own (e.g. "exp_avg.NAME").
struct CheckpointContent {
  int64_t step = 0;  ///< updates applied so far
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> optimizer;
};

/// Writes OUT/checkpoints/STEP atomically and then removes older ones so that `keep` (>= 1) remain; a failed
/// removal is only a warning, and newer ones are left alone. `state` is free JSON (recipe, seeds, data hash…)
/// and comes back from read_checkpoint_state. A checkpoint of the same step that is already there and valid
/// is kept as it is; an invalid one is replaced. Leftovers of an interrupted save are removed first. When
/// this fails, what was there before is still there.
Status save_checkpoint(FileSystem& files, const std::string& out_dir, const CheckpointContent& content,
                       const nlohmann::json& state, int keep);

struct CheckpointInfo {
  std::string path;
  int64_t step = 0;
};
/// Complete checkpoints under OUT (those with state.json), newest first; empty when there are none or no OUT.
/// Leftover temporaries are not listed. Nothing is verified.
Result<std::vector<CheckpointInfo>> list_checkpoints(FileSystem& files, const std::string& out_dir);

/// Receives one line for each thing that went wrong but could be got round.
using WarningSink = std::function<void(const std::string&)>;

/// The newest checkpoint that verify_checkpoint accepts; each newer one that it does not is named in a
/// warning (default: the log). kData with a hint when there is none.
Result<CheckpointInfo> find_latest_valid_checkpoint(FileSystem& files, const std::string& out_dir,
                                                    const WarningSink& warn = {});

/// The `state` that was saved, after state.json's own hash, version and shape have been checked; the tensors
/// are not read.
Result<nlohmann::json> read_checkpoint_state(FileSystem& files, const std::string& path);

/// One tensor file as state.json names it.
struct CheckpointFile {
  std::string name;
  uint64_t bytes = 0;
  std::string xxh3_128;
};
/// What state.json says besides the state (for inspection).
struct CheckpointManifest {
  int64_t step = 0;
  std::vector<CheckpointFile> files;  ///< model.safetensors, optimizer.safetensors
};
Result<CheckpointManifest> read_checkpoint_manifest(FileSystem& files, const std::string& path);

/// Ok when state.json and both tensor files are whole: reads every byte.
Status verify_checkpoint(FileSystem& files, const std::string& path);

/// Verifies both files' hashes, then fills every tensor of content (names and shapes must match exactly, no
/// extra ones in the file) and sets its step. On any error nothing of content has been changed.
Status load_checkpoint(FileSystem& files, const std::string& path, CheckpointContent& content);
/// The same for model.safetensors alone (sampling).
Status load_model(FileSystem& files, const std::string& path, std::vector<NamedTensor>& model);

}  // namespace lockstep
