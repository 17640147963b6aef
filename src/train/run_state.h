// What a checkpoint's state.json says about a run besides the tensors: where it stands, its recipe, the shape
// of its model, the data it learns and how text becomes tokens. Everything that resuming, sampling and
// inspecting need (docs/formats/checkpoint.md).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/status.h"
#include "data/dataset.h"
#include "data/tokenizer.h"
#include "model/config.h"
#include "train/recipe.h"

namespace lockstep {

struct RunState {
  int64_t step = 0;     ///< updates applied
  int64_t samples = 0;  ///< rows used so far: the global index of the next step's slot 0
  int64_t tokens = 0;   ///< targets learned from so far
  std::string lineage;
  int64_t generation = 0;          ///< of the membership; 0: a single process
  std::optional<double> loss;      ///< of the last step, mean per token
  std::optional<double> val_loss;  ///< of the last evaluation on the way
  int64_t evaluated_step = -1;     ///< step of the last evaluation; -1: none
  double train_s = 0.0, eval_s = 0.0;
};

struct StoredRun {
  RunState state;
  Recipe recipe;
  GptConfig model;
  std::string data_name, data_hash;
  int64_t train_tokens = 0, val_tokens = 0;
  std::optional<CharTokenizer> tokenizer;
};

nlohmann::json stored_run_to_json(const RunState& state, const Recipe& recipe, const GptConfig& model,
                                  const Dataset& dataset);

/// kData naming the file and the field that is missing or of the wrong type.
Result<StoredRun> stored_run_from_json(const nlohmann::json& json, const std::string& path);

/// The last evaluation that OUT/metrics.jsonl tells of; nullopt when there is none or it cannot be read.
struct LoggedEvaluation {
  int64_t step = 0;
  double val_loss = 0.0;
  bool full = false;
};
std::optional<LoggedEvaluation> last_logged_evaluation(FileSystem& files, const std::string& out_dir);

}  // namespace lockstep
