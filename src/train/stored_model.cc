#include "train/stored_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "model/parameters.h"
#include "report/progress.h"
#include "train/parameters_io.h"

namespace lockstep {
namespace {

/// Checkpoints that `place` means, newest first.
Result<std::vector<CheckpointInfo>> checkpoints_at(FileSystem& files, const std::string& place) {
  const std::string attempt = fmt::format("cannot read a checkpoint in {}", place);
  if (!files.is_directory(place))
    return Status(Code::kUsage, attempt + (files.exists(place) ? ": it is a file, not the folder of a run"
                                                               : ": there is no such folder"))
        .with_hint("give the --out-dir of a training run");
  if (files.exists(place + "/state.json")) return std::vector<CheckpointInfo>{{place, 0}};
  Result<std::vector<CheckpointInfo>> checkpoints = list_checkpoints(files, place);
  if (!checkpoints.is_ok()) return std::move(checkpoints).status().with_context(attempt);
  if (checkpoints->empty())
    return Status(Code::kUsage, attempt + ": it has none yet")
        .with_hint("a run writes them every checkpoint_interval steps and when it ends or is interrupted");
  return checkpoints;
}

Result<StoredRun> read_run(FileSystem& files, const std::string& path) {
  LOCKSTEP_ASSIGN(const nlohmann::json state, read_checkpoint_state(files, path));
  return stored_run_from_json(state, path);
}

Result<StoredModel> load_one(FileSystem& files, const std::string& path) {
  StoredModel stored;
  stored.path = path;
  LOCKSTEP_ASSIGN(stored.run, read_run(files, path));
  LOCKSTEP_TRY(check_model_file(files, path, stored.run.model));
  const ParameterRegistry registry(stored.run.model);
  stored.params = Buffer(static_cast<size_t>(registry.flat_count()) * sizeof(float));
  std::vector<NamedTensor> tensors = named_tensors(registry, stored.params.floats());
  LOCKSTEP_TRY(load_model(files, path, tensors));
  return stored;
}

std::string describe_run_state(const StoredRun& run) {
  const ParameterRegistry registry(run.model);
  const GptConfig& model = run.model;
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<12} {}\n", name, value);
  };
  line("step", fmt::format("{} of {}", run.state.step, run.recipe.max_iters));
  line("recipe", run.recipe.name);
  line("model", fmt::format("{} layers, {} heads, {} wide, context {}, vocabulary {}, {} biases, {} GELU",
                            model.n_layer, model.n_head, model.n_embd, model.block_size, model.vocab_size,
                            model.bias ? "with" : "no", model.gelu == kernels::Gelu::kTanh ? "tanh" : "erf"));
  line("parameters",
       fmt::format("{} ({} without positions)", registry.parameter_count(),
                   format_millions(static_cast<double>(registry.parameter_count_without_positions()))));
  if (run.state.loss) line("train loss", fmt::format("{:.4f} in the last step", *run.state.loss));
  if (run.state.val_loss)
    line("val loss", fmt::format("{:.4f} at step {}", *run.state.val_loss, run.state.evaluated_step));
  line("data", fmt::format("{}, {} + {} tokens, content {:.16}", run.data_name, run.train_tokens,
                           run.val_tokens, run.data_hash));
  line("learned", fmt::format("{} tokens in {}", run.state.tokens, format_duration(run.state.train_s)));
  line("tokenizer",
       run.tokenizer ? fmt::format("{} characters", run.tokenizer->vocab_size()) : "none (token files)");
  line("seed", fmt::format("{}", run.recipe.seed));
  line("lineage", fmt::format("{}, generation {}", run.state.lineage, run.state.generation));
  return text;
}

}  // namespace

Status check_model_file(FileSystem& files, const std::string& path, const GptConfig& model) {
  const std::string file = path + "/model.safetensors";
  LOCKSTEP_ASSIGN(const uint64_t bytes, files.file_bytes(file));
  const ParameterRegistry registry(model);
  const auto needed = static_cast<uint64_t>(registry.parameter_count()) * sizeof(float);
  if (bytes >= needed) return Status::ok();
  return {Code::kData, fmt::format("cannot use checkpoint {}: {} has {} bytes, the shape in state.json needs "
                                   "{} or more",
                                   path, file, bytes, needed)};
}

Result<StoredModel> load_stored_model(FileSystem& files, const std::string& place) {
  LOCKSTEP_ASSIGN(const std::vector<CheckpointInfo> checkpoints, checkpoints_at(files, place));
  Status first_failure;
  for (const CheckpointInfo& checkpoint : checkpoints) {
    Result<StoredModel> stored = load_one(files, checkpoint.path);
    if (stored.is_ok()) return stored;
    log_warning("{}", stored.status().message());
    if (first_failure.is_ok()) first_failure = std::move(stored).status();
  }
  return std::move(first_failure).with_context(fmt::format("no checkpoint in {} can be used", place));
}

Result<std::string> describe_checkpoints(FileSystem& files, const std::string& place) {
  LOCKSTEP_ASSIGN(const std::vector<CheckpointInfo> checkpoints, checkpoints_at(files, place));
  std::string text;
  bool described = false;
  Status first_failure;
  for (const CheckpointInfo& checkpoint : checkpoints) {
    Result<StoredRun> run = read_run(files, checkpoint.path);
    Status sound = run.is_ok() ? verify_checkpoint(files, checkpoint.path) : run.status();
    if (!sound.is_ok()) {
      text += fmt::format("{}: damaged: {}\n", checkpoint.path, sound.message());
      if (first_failure.is_ok()) first_failure = std::move(sound);
      continue;
    }
    text += fmt::format("{}: sound, every file has its hash\n", checkpoint.path);
    if (!described) text += describe_run_state(*run);
    described = true;
  }
  if (!described)
    return std::move(first_failure).with_context(fmt::format("no checkpoint in {} can be used", place));
  if (const auto logged = last_logged_evaluation(files, place))
    text += fmt::format("last evaluation in metrics.jsonl: val loss {:.4f} at step {}{}\n", logged->val_loss,
                        logged->step, logged->full ? " over the whole validation set" : "");
  return text;
}

}  // namespace lockstep
