// Before a run: which recipe, which folder, which data, which checkpoint. Everything a user can get wrong is
// found here, before anything is written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/dataset.h"
#include "train/recipe.h"
#include "train/run.h"
#include "train/run_state.h"

namespace lockstep {

struct RunPlan {
  Recipe recipe;
  std::string out_dir;
  std::vector<std::string> notes;  ///< lines for the user
  /// Checkpoints to resume from, newest first; empty for a new run.
  std::vector<CheckpointInfo> checkpoints;
  Dataset dataset;
  GptConfig model;
};

/// A new run: recipe, then flags. kUsage when out_dir has something in it.
Result<RunPlan> plan_new_run(const TrainRequest& request, FileSystem& files);

/// Finds the folder and its checkpoints; the rest depends on which of them is sound.
struct ResumeTarget {
  std::string out_dir;
  std::vector<CheckpointInfo> checkpoints;
};
Result<ResumeTarget> find_resume_target(const TrainRequest& request, FileSystem& files);

/// A run that goes on from `stored`: its recipe, then those flags that may change. kUsage naming both values
/// when a flag contradicts the checkpoint; kData when the data is not what the run learned from.
Result<RunPlan> plan_resumed_run(const TrainRequest& request, FileSystem& files, const ResumeTarget& target,
                                 const StoredRun& stored);

/// True when flags or recipe say so (init_from = 'resume' is nanoGPT's way).
Result<bool> wants_resume(const TrainRequest& request, FileSystem& files);

/// Rows of the token table: the recipe's, else the data's, else nanoGPT's 50304. kUsage when too small.
Result<int64_t> decide_vocab_size(const Recipe& recipe, const Dataset& dataset);

}  // namespace lockstep
