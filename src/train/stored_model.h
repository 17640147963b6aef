// A checkpoint read for use, not for going on: state and weights without the optimizer.
#pragma once

#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"
#include "tensor/buffer.h"
#include "train/run_state.h"

namespace lockstep {

struct StoredModel {
  std::string path;
  StoredRun run;
  Buffer params;  ///< flat, laid out by ParameterRegistry(run.model)
};

/// `place`: a run's folder (its newest sound checkpoint is taken, with a warning for damaged newer ones) or
/// one checkpoint. kUsage when there is none.
Result<StoredModel> load_stored_model(FileSystem& files, const std::string& place);

/// kData when the checkpoint's weights file is too small for the shape that its state claims: asked before
/// memory for that shape is taken.
Status check_model_file(FileSystem& files, const std::string& path, const GptConfig& model);

/// The text of `lockstep inspect OUT`: step, shape, losses, data, recipe, and whether every file of every
/// checkpoint has its hash. kData when none is sound.
Result<std::string> describe_checkpoints(FileSystem& files, const std::string& place);

}  // namespace lockstep
