// A recipe: every hyperparameter of a run. One table (recipe_options) drives the keys of recipe files, the
// flags of the command line, nanoGPT's spellings, the help text and the JSON that a checkpoint keeps.
//
// The member initialisers are the defaults of nanoGPT's train.py where it has the setting; a recipe file says
// what differs. Pure values: nothing here opens data or allocates for training.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"
#include "data/samples.h"
#include "model/config.h"
#include "optim/adamw.h"
#include "optim/schedule.h"
#include "train/setting.h"

namespace lockstep {

struct Recipe {
  std::string name = "custom";  ///< built-in name or file it came from; not an option

  // Model.
  int64_t n_layer = 12, n_head = 12, n_embd = 768, block_size = 1024;
  int64_t vocab_size = 0;  ///< 0: from the data
  bool bias = false;
  double dropout = 0.0;
  std::string gelu = "erf";

  // Training.
  int64_t batch_size = 12, gradient_accumulation_steps = 40;
  double learning_rate = 6e-4, min_lr = 6e-5;
  int64_t warmup_iters = 2000, lr_decay_iters = 600000, max_iters = 600000;
  bool decay_lr = true;
  double beta1 = 0.9, beta2 = 0.95, weight_decay = 0.1, grad_clip = 1.0;
  std::string sampling = "replacement";
  int64_t seed = 1337;

  // Run.
  std::string data = "builtin";
  std::string out_dir;  ///< "": out-NAME
  std::string init_from = "scratch";
  int64_t eval_interval = 2000, eval_iters = 200, log_interval = 1;
  bool eval_at_start = false, eval_only = false;
  int64_t checkpoint_interval = 1000, keep_checkpoints = 2;
  double checkpoint_minutes = 15.0;
  std::string dtype = "fp32", device_type = "auto";
  int64_t threads = 0;  ///< 0: choose

  /// Rows of one step's global batch.
  int64_t rows_per_step() const { return batch_size * gradient_accumulation_steps; }
  std::string out_dir_or_default() const;
  /// With the vocabulary that the data decided.
  GptConfig model_config(int64_t vocab) const;
  AdamWConfig adamw_config() const;
  LearningRateSchedule schedule() const;
  Sampling sampling_kind() const;
  ComputeType compute_type() const;
};

enum class OptionType : uint8_t { kInteger, kReal, kBool, kText };

/// What a resumed run may do with an option.
enum class OnResume : uint8_t {
  kFixed,    ///< a different value is an error: it would be another run
  kChanges,  ///< allowed, but the run is then not the one that never stopped; said in a line
  kFree      ///< no influence on the numbers
};

struct RecipeOption {
  std::string name;     ///< snake_case, nanoGPT's where it has the setting
  std::string section;  ///< "model", "training" or "run"
  std::variant<int64_t Recipe::*, double Recipe::*, bool Recipe::*, std::string Recipe::*> field;
  double min = 0.0, max = 0.0;       ///< of numbers
  bool open = false;                 ///< the bounds themselves are excluded
  std::vector<std::string> choices;  ///< of texts; empty: any
  OnResume on_resume = OnResume::kFree;
  std::string help;  ///< meaning, bounds, what goes wrong on either side

  OptionType type() const { return static_cast<OptionType>(field.index()); }
  /// "batch-size"
  std::string flag() const;
};

std::span<const RecipeOption> recipe_options();
const RecipeOption* find_recipe_option(std::string_view name_or_flag);

/// The option's value in a recipe, for people and for comparing.
SettingValue option_value(const Recipe& recipe, const RecipeOption& option);

/// Sets one option; kUsage naming place, value and bounds when the type or range is wrong.
Status set_option(Recipe& recipe, const RecipeOption& option, const SettingValue& value,
                  const std::string& where);

/// The value that `text` from the command line means for this option; a guess that set_option will judge.
SettingValue value_for_option(const RecipeOption& option, std::string_view text);

/// Settings that belong together: min_lr above learning_rate, heads that do not divide the width, ….
Status validate_recipe(const Recipe& recipe);

nlohmann::json recipe_to_json(const Recipe& recipe);
/// kData when a value has the wrong type or range; keys of later versions are ignored, missing ones default.
Result<Recipe> recipe_from_json(const nlohmann::json& json);

// ---- finding recipes -----------------------------------------------------------------------------------

struct BuiltinRecipe {
  std::string name;
  std::string toml;
};
/// Embedded from recipes/*.toml by the build.
std::span<const BuiltinRecipe> builtin_recipes();
/// First comment line of the file: what the recipe is.
std::string recipe_summary(const BuiltinRecipe& recipe);

/// Applies settings with nanoGPT's keys understood (`dataset`, `device`, …). Keys that mean nothing here go
/// to `ignored`; an unknown key is kUsage with the nearest name.
Status apply_settings(Recipe& recipe, FileSystem& files, std::span<const Setting> settings,
                      std::vector<std::string>& ignored);

struct LoadedRecipe {
  Recipe recipe;
  std::vector<std::string> notes;    ///< lines for the user: what stood in for what
  std::vector<std::string> ignored;  ///< nanoGPT's keys that mean nothing here
};
/// `argument`: a built-in name, a .toml file, a nanoGPT .py file, or the path of a well-known nanoGPT file
/// that is not there (its built-in twin is taken and a note says so).
Result<LoadedRecipe> load_recipe(FileSystem& files, const std::string& argument);

/// True when a command-line name is one of nanoGPT's keys that lockstep accepts without it being an option.
bool is_nanogpt_key(std::string_view name);
/// Names of those keys.
std::vector<std::string> nanogpt_keys();

}  // namespace lockstep
