#include <fmt/format.h>

#include "cli/command.h"
#include "cli/terminal.h"
#include "train/recipe.h"
#include "train/run.h"

namespace lockstep::cli {
namespace {

const char* value_name(const RecipeOption& option) {
  switch (option.type()) {
    case OptionType::kInteger:
      return "N";
    case OptionType::kReal:
      return "X";
    case OptionType::kBool:
      return "";
    case OptionType::kText:
      break;
  }
  return option.choices.empty() ? "TEXT" : "CHOICE";
}

std::string help_text(const RecipeOption& option) {
  if (option.type() == OptionType::kBool) return option.help;
  if (option.choices.empty() && option.type() == OptionType::kText) return option.help;
  if (!option.choices.empty()) return fmt::format("{} ({})", option.help, fmt::join(option.choices, ", "));
  if (option.type() == OptionType::kInteger)
    return fmt::format("{} ({} to {})", option.help, static_cast<int64_t>(option.min),
                       static_cast<int64_t>(option.max));
  if (option.open) return fmt::format("{} (above {}, below {})", option.help, option.min, option.max);
  return fmt::format("{} ({} to {})", option.help, option.min, option.max);
}

std::vector<Flag> train_flags() {
  std::vector<Flag> flags = {
      {"resume", FlagKind::kSwitch, "", "this run",
       "Goes on from the newest sound checkpoint in --out-dir with the settings stored there. The result has "
       "the same bits as if the run had never stopped. Flags may change how long it runs and what it "
       "shows; shape, data, batch and seed are fixed."},
      {"data-path", FlagKind::kList, "DIR", "this run",
       "Folder to look for `shakespeare` in; may be repeated. After it come $LOCKSTEP_DATA and "
       "~/.cache/lockstep."},
      {"no-download", FlagKind::kSwitch, "", "this run", "Never fetch a data set from the network."},
      {"force", FlagKind::kSwitch, "", "this run",
       "Train although the memory plan is larger than what is available."},
  };
  for (const RecipeOption& option : recipe_options())
    flags.push_back({option.flag(), option.type() == OptionType::kBool ? FlagKind::kBool : FlagKind::kValue,
                     value_name(option), option.section, help_text(option)});
  for (const std::string& key : nanogpt_keys()) {
    const bool has_text = key != "compile" && key != "wandb_log" && key != "always_save_checkpoint";
    flags.push_back({key, has_text ? FlagKind::kHiddenValue : FlagKind::kHiddenBool, "", "", ""});
  }
  return flags;
}

TrainRequest make_request(const ParsedCommand& parsed) {
  TrainRequest request;
  if (!parsed.arguments.empty()) request.recipe = parsed.arguments[0];
  request.resume = parsed.has("resume");
  request.force = parsed.has("force");
  request.allow_download = !parsed.has("no-download");
  request.data_path = parsed.list("data-path");
  for (const auto& [name, text] : parsed.values) {
    if (const RecipeOption* option = find_recipe_option(name)) {
      request.settings.push_back({option->name, value_for_option(*option, text), "--" + name, ""});
    } else if (is_nanogpt_key(name)) {
      request.settings.push_back({name, guess_setting_value(text), "--" + name, ""});
    }
  }
  return request;
}

Result<int> run_train(const ParsedCommand& parsed) {
  const std::atomic<int>& stop_signal = catch_stop_signals();
  const auto write = [](std::string_view text) { static_cast<void>(write_stdout(text)); };
  const TrainEnvironment environment{.files = real_file_system(),
                                     .clock = real_clock(),
                                     .write = write,
                                     .terminal = stdout_is_terminal(),
                                     .stop_signal = &stop_signal,
                                     .version = version_text()};
  LOCKSTEP_ASSIGN(const TrainSummary summary, train(make_request(parsed), environment));
  return summary.interrupted ? 128 + stop_signal.load() : 0;
}

}  // namespace

Command train_command() {
  std::string recipes;
  for (const BuiltinRecipe& recipe : builtin_recipes())
    recipes += fmt::format("  {}: {}\n", recipe.name, recipe_summary(recipe));
  return {"train",
          "[RECIPE] [flags]",
          0,
          1,
          "train a model; without a recipe a small one on the built-in text",
          "RECIPE is a built-in name, a .toml file or a nanoGPT configuration (.py):\n" + recipes +
              "\nEvery setting of a recipe is a flag; flags win. nanoGPT's spellings (--batch_size=12, "
              "--device=cpu, --compile=False) are accepted. Ctrl-C saves and says how to go on; a second one "
              "stops at once.",
          train_flags(),
          run_train};
}

}  // namespace lockstep::cli
