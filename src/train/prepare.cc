#include "train/prepare.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

constexpr const char* kDefaultRecipe = "default";

Result<LoadedRecipe> merged_recipe(const TrainRequest& request, FileSystem& files) {
  LOCKSTEP_ASSIGN(LoadedRecipe loaded, load_recipe(files, request.recipe.value_or(kDefaultRecipe)));
  LOCKSTEP_TRY(apply_settings(loaded.recipe, files, request.settings, loaded.ignored));
  return loaded;
}

void note_ignored(const LoadedRecipe& loaded, std::vector<std::string>& notes) {
  notes.insert(notes.end(), loaded.notes.begin(), loaded.notes.end());
  if (!loaded.ignored.empty())
    notes.push_back(fmt::format("without meaning here: {}", fmt::join(loaded.ignored, ", ")));
}

Result<Dataset> open_data(const TrainRequest& request, FileSystem& files, const Recipe& recipe) {
  DataOptions options;
  options.spec = recipe.data;
  options.search_path = request.data_path;
  options.allow_download = request.allow_download;
  return open_dataset(files, options, recipe.block_size);
}

/// "out/x-2": a name beside `out_dir` that is free.
std::string free_sibling(FileSystem& files, const std::string& out_dir) {
  for (int number = 2; number < 1000; ++number) {
    std::string name = fmt::format("{}-{}", out_dir, number);
    if (!files.exists(name)) return name;
  }
  return out_dir + "-new";
}

Status check_out_dir_is_free(FileSystem& files, const std::string& out_dir) {
  if (!files.exists(out_dir)) return Status::ok();
  const std::string attempt = fmt::format("cannot start a run in {}", out_dir);
  if (!files.is_directory(out_dir)) return {Code::kUsage, attempt + ": it is a file"};
  LOCKSTEP_ASSIGN(const std::vector<std::string> names, files.list(out_dir));
  if (names.empty()) return Status::ok();
  return Status(Code::kUsage, attempt + ": the folder is not empty")
      .with_hint(fmt::format("--resume goes on with the run that is there; --out-dir {} starts another one",
                             free_sibling(files, out_dir)));
}

/// One flag on top of a stored recipe.
Status apply_to_resumed(Recipe& recipe, FileSystem& files, const Setting& setting, const StoredRun& stored,
                        std::vector<std::string>& notes, std::vector<std::string>& ignored) {
  const Recipe before = recipe;
  LOCKSTEP_TRY(apply_settings(recipe, files, std::span(&setting, 1), ignored));
  for (const RecipeOption& option : recipe_options()) {
    const SettingValue old_value = option_value(before, option);
    SettingValue new_value = option_value(recipe, option);
    if (old_value == new_value) continue;
    // The size that the data decided may be named.
    const bool is_vocab = option.name == "vocab_size";
    if (is_vocab && recipe.vocab_size == stored.model.vocab_size) continue;
    if (option.on_resume == OnResume::kFixed)
      return Status(Code::kUsage, fmt::format("cannot resume with {} = {} ({}): the run has {}", option.name,
                                              format_setting_value(new_value), setting.where,
                                              is_vocab ? fmt::format("{}", stored.model.vocab_size)
                                                       : format_setting_value(old_value)))
          .with_hint("leave the flag out, or start another run in another --out-dir");
    if (option.on_resume == OnResume::kChanges)
      notes.push_back(fmt::format("{} is now {}, was {}: from here on this is another run than before",
                                  option.name, format_setting_value(new_value),
                                  format_setting_value(old_value)));
  }
  return Status::ok();
}

}  // namespace

Result<int64_t> decide_vocab_size(const Recipe& recipe, const Dataset& dataset) {
  constexpr int64_t kNanogptDefault = 50304;
  const int64_t needed = std::max<int64_t>(dataset.vocab_size, int64_t{dataset.max_id} + 1);
  if (recipe.vocab_size == 0)
    return dataset.vocab_size > 0 ? needed : std::max<int64_t>(kNanogptDefault, needed);
  if (recipe.vocab_size < needed)
    return Status(Code::kUsage, fmt::format("cannot train on {}: vocab_size {} is too small, the data needs "
                                            "{}",
                                            dataset.name, recipe.vocab_size, needed))
        .with_hint("--vocab-size 0 takes the size from the data");
  return recipe.vocab_size;
}

Result<bool> wants_resume(const TrainRequest& request, FileSystem& files) {
  if (request.resume) return true;
  LOCKSTEP_ASSIGN(const LoadedRecipe loaded, merged_recipe(request, files));
  return loaded.recipe.init_from == "resume";
}

Result<RunPlan> plan_new_run(const TrainRequest& request, FileSystem& files) {
  LOCKSTEP_ASSIGN(const LoadedRecipe loaded, merged_recipe(request, files));
  RunPlan plan;
  plan.recipe = loaded.recipe;
  note_ignored(loaded, plan.notes);
  LOCKSTEP_TRY(validate_recipe(plan.recipe));
  plan.out_dir = plan.recipe.out_dir_or_default();
  LOCKSTEP_TRY(check_out_dir_is_free(files, plan.out_dir));
  LOCKSTEP_ASSIGN(plan.dataset, open_data(request, files, plan.recipe));
  LOCKSTEP_ASSIGN(const int64_t vocab, decide_vocab_size(plan.recipe, plan.dataset));
  plan.model = plan.recipe.model_config(vocab);
  LOCKSTEP_TRY(plan.model.validate());
  return plan;
}

Result<ResumeTarget> find_resume_target(const TrainRequest& request, FileSystem& files) {
  LOCKSTEP_ASSIGN(const LoadedRecipe loaded, merged_recipe(request, files));
  ResumeTarget target;
  target.out_dir = loaded.recipe.out_dir_or_default();
  const std::string attempt = fmt::format("cannot resume the run in {}", target.out_dir);
  if (!files.is_directory(target.out_dir))
    return Status(Code::kUsage, attempt + ": there is no such folder")
        .with_hint("give the folder of the run as --out-dir, or leave --resume out to start a new one");
  Result<std::vector<CheckpointInfo>> checkpoints = list_checkpoints(files, target.out_dir);
  if (!checkpoints.is_ok()) return std::move(checkpoints).status().with_context(attempt);
  if (checkpoints->empty())
    return Status(Code::kUsage, attempt + ": it has no checkpoint")
        .with_hint("start a new run in another --out-dir, or empty this folder");
  target.checkpoints = std::move(checkpoints).value();
  return target;
}

Result<RunPlan> plan_resumed_run(const TrainRequest& request, FileSystem& files, const ResumeTarget& target,
                                 const StoredRun& stored) {
  RunPlan plan;
  plan.recipe = stored.recipe;
  plan.out_dir = target.out_dir;
  plan.checkpoints = target.checkpoints;
  if (request.recipe) {
    LOCKSTEP_ASSIGN(const LoadedRecipe named, load_recipe(files, *request.recipe));
    if (named.recipe.name != stored.recipe.name)
      return Status(Code::kUsage, fmt::format("cannot resume {} as {}: the run was started as {}",
                                              target.out_dir, named.recipe.name, stored.recipe.name))
          .with_hint("leave the recipe out: the checkpoint has it");
  }
  std::vector<std::string> ignored;
  for (const Setting& setting : request.settings)
    LOCKSTEP_TRY(apply_to_resumed(plan.recipe, files, setting, stored, plan.notes, ignored));
  plan.recipe.out_dir = target.out_dir;
  LOCKSTEP_TRY(validate_recipe(plan.recipe));
  LOCKSTEP_ASSIGN(plan.dataset, open_data(request, files, plan.recipe));
  if (plan.dataset.content_hash != stored.data_hash)
    return Status(Code::kUsage,
                  fmt::format("cannot resume the run in {}: {} has content {:.12}…, the run learned from {} "
                              "with content {:.12}…",
                              target.out_dir, plan.dataset.name, plan.dataset.content_hash, stored.data_name,
                              stored.data_hash))
        .with_hint("give the same text or token files with --data");
  plan.model = stored.model;
  plan.model.dropout = static_cast<float>(plan.recipe.dropout);
  return plan;
}

}  // namespace lockstep
