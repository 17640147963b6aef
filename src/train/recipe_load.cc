// Finding a recipe and applying settings in nanoGPT's spelling.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/suggest.h"
#include "train/recipe.h"

namespace lockstep {
namespace {

// nanoGPT's keys that are no options here. `reason` is empty for those that are translated.
struct NanogptKey {
  const char* name;
  const char* reason;
};
constexpr NanogptKey kNanogptKeys[] = {
    {"dataset", ""},
    {"device", ""},
    {"compile", "nothing is compiled at run time"},
    {"backend", "one machine needs none"},
    {"always_save_checkpoint", "checkpoints follow checkpoint_interval"},
    {"wandb_log", "metrics.jsonl has every number"},
    {"wandb_project", "metrics.jsonl has every number"},
    {"wandb_run_name", "metrics.jsonl has every number"},
};

// nanoGPT's own configuration files, which its README names, and what stands in for them.
const std::map<std::string, std::string>& nanogpt_twins() {
  static const std::map<std::string, std::string> twins = {
      {"config/train_shakespeare_char.py", "shakespeare-char"}, {"config/train_gpt2.py", "gpt2-124m"}};
  return twins;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// "dir/my-recipe.toml" -> "my-recipe"
std::string stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (const size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0) name.resize(dot);
  return name;
}

/// nanoGPT keeps data sets in data/NAME; its character-level one is our `shakespeare`.
std::string data_for_dataset(FileSystem& files, const std::string& dataset) {
  std::string folder = "data/" + dataset;
  if (dataset == "shakespeare_char" && !files.exists(folder + "/train.bin")) return "shakespeare";
  return folder;
}

Status apply_device(Recipe& recipe, const Setting& setting) {
  const auto* device = std::get_if<std::string>(&setting.value);
  if (device == nullptr)
    return {Code::kUsage, fmt::format("cannot set device to {} ({}): it must be a text",
                                      format_setting_value(setting.value), setting.where)};
  if (*device == "cpu" || *device == "auto") {
    recipe.device_type = *device;
  } else if (device->starts_with("cuda") || *device == "mps") {
    recipe.device_type = "cuda";
  } else {
    return Status(Code::kUsage,
                  fmt::format("cannot set device to '{}' ({}): it must be cpu", *device, setting.where))
        .with_hint("this version computes on the CPU only");
  }
  return Status::ok();
}

Status unknown_key(const Setting& setting) {
  std::vector<std::string> names = nanogpt_keys();
  for (const RecipeOption& option : recipe_options()) names.push_back(option.name);
  const std::string nearest = nearest_name(setting.name, names);
  Status status(Code::kUsage, fmt::format("cannot use {} = {} ({}): there is no such setting", setting.name,
                                          format_setting_value(setting.value), setting.where));
  return std::move(status).with_hint(nearest.empty() ? "`lockstep train --help` lists every setting"
                                                     : fmt::format("did you mean {}?", nearest));
}

/// A recipe's text: settings on top of what it extends.
Result<Recipe> recipe_from_toml(FileSystem& files, std::string_view text, const std::string& path,
                                std::vector<std::string>& ignored, int depth) {
  LOCKSTEP_ASSIGN(std::vector<Setting> settings, parse_toml_settings(text, path));
  Recipe recipe;
  const auto is_extends = [](const Setting& setting) { return setting.name == "extends"; };
  if (const auto extends = std::find_if(settings.begin(), settings.end(), is_extends);
      extends != settings.end()) {
    const auto* parent = std::get_if<std::string>(&extends->value);
    const auto builtins = builtin_recipes();
    const auto found = std::find_if(builtins.begin(), builtins.end(), [&](const BuiltinRecipe& builtin) {
      return parent != nullptr && builtin.name == *parent;
    });
    if (found == builtins.end() || depth > 4)
      return Status(Code::kUsage, fmt::format("cannot read recipe {}: extends = {} is no built-in recipe",
                                              extends->where, format_setting_value(extends->value)));
    LOCKSTEP_ASSIGN(recipe, recipe_from_toml(files, found->toml, found->name + ".toml", ignored, depth + 1));
  }
  std::erase_if(settings, is_extends);
  for (const Setting& setting : settings) {
    const RecipeOption* option = find_recipe_option(setting.name);
    if (option != nullptr && !setting.section.empty() && setting.section != option->section)
      return Status(Code::kUsage, fmt::format("cannot read recipe {}: {} belongs into [{}], not [{}]",
                                              setting.where, setting.name, option->section, setting.section));
  }
  LOCKSTEP_TRY(apply_settings(recipe, files, settings, ignored));
  return recipe;
}

Result<LoadedRecipe> load_recipe_file(FileSystem& files, const std::string& path) {
  // A recipe is flat and short. The bound also limits how deep `a.a.a… = 1` nests: toml++ frees nested tables
  // by recursion, and a table for every other byte of a large file would overflow the stack.
  constexpr size_t kBytesMax = size_t{16} << 10;
  LOCKSTEP_ASSIGN(const std::unique_ptr<MappedFile> mapped, files.map(path));
  const auto bytes = mapped->bytes();
  if (bytes.size() > kBytesMax)
    return Status(Code::kUsage, fmt::format("cannot read recipe {}: it has {} bytes, more than the {} that a "
                                            "recipe may have",
                                            path, bytes.size(), kBytesMax))
        .with_hint("text to learn from is given by --data");
  const std::string text(static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size());
  LoadedRecipe loaded;
  if (ends_with(path, ".py")) {
    LOCKSTEP_ASSIGN(const std::vector<Setting> settings, parse_nanogpt_settings(text, path));
    LOCKSTEP_TRY(apply_settings(loaded.recipe, files, settings, loaded.ignored));
  } else {
    LOCKSTEP_ASSIGN(loaded.recipe, recipe_from_toml(files, text, path, loaded.ignored, 0));
  }
  loaded.recipe.name = stem(path);
  return loaded;
}

Result<LoadedRecipe> load_builtin(FileSystem& files, const BuiltinRecipe& builtin) {
  LoadedRecipe loaded;
  LOCKSTEP_ASSIGN(loaded.recipe,
                  recipe_from_toml(files, builtin.toml, builtin.name + ".toml", loaded.ignored, 0));
  loaded.recipe.name = builtin.name;
  return loaded;
}

}  // namespace

bool is_nanogpt_key(std::string_view name) {
  return std::any_of(std::begin(kNanogptKeys), std::end(kNanogptKeys),
                     [&](const NanogptKey& key) { return name == key.name; });
}

std::vector<std::string> nanogpt_keys() {
  std::vector<std::string> names;
  for (const NanogptKey& key : kNanogptKeys) names.emplace_back(key.name);
  return names;
}

Status apply_settings(Recipe& recipe, FileSystem& files, std::span<const Setting> settings,
                      std::vector<std::string>& ignored) {
  for (const Setting& setting : settings) {
    if (const RecipeOption* option = find_recipe_option(setting.name)) {
      const auto* text = std::get_if<std::string>(&setting.value);
      if (option->name == "init_from" && text != nullptr && text->starts_with("gpt2"))
        return Status(Code::kUsage, fmt::format("cannot start from {} ({}): this version does not load "
                                                "OpenAI's weights",
                                                *text, setting.where))
            .with_hint("gpt2-124m trains the same shape from random weights");
      LOCKSTEP_TRY(set_option(recipe, *option, setting.value, setting.where));
    } else if (setting.name == "device") {
      LOCKSTEP_TRY(apply_device(recipe, setting));
    } else if (setting.name == "dataset") {
      const auto* dataset = std::get_if<std::string>(&setting.value);
      if (dataset == nullptr)
        return {Code::kUsage, fmt::format("cannot set dataset to {} ({}): it must be a text",
                                          format_setting_value(setting.value), setting.where)};
      recipe.data = data_for_dataset(files, *dataset);
    } else if (is_nanogpt_key(setting.name)) {
      if (std::find(ignored.begin(), ignored.end(), setting.name) == ignored.end())
        ignored.push_back(setting.name);
    } else {
      return unknown_key(setting);
    }
  }
  return Status::ok();
}

std::string recipe_summary(const BuiltinRecipe& recipe) {
  const std::string first = recipe.toml.substr(0, recipe.toml.find('\n'));
  return first.starts_with("# ") ? first.substr(2) : "";
}

Result<LoadedRecipe> load_recipe(FileSystem& files, const std::string& argument) {
  const auto builtins = builtin_recipes();
  for (const BuiltinRecipe& builtin : builtins)
    if (builtin.name == argument) return load_builtin(files, builtin);
  if (files.exists(argument) && !files.is_directory(argument)) {
    if (ends_with(argument, ".toml") || ends_with(argument, ".py")) return load_recipe_file(files, argument);
    return Status(Code::kUsage, fmt::format("cannot use {} as a recipe: its name ends in neither .toml nor "
                                            ".py",
                                            argument))
        .with_hint("text to learn from is given by --data");
  }
  if (const auto twin = nanogpt_twins().find(argument); twin != nanogpt_twins().end()) {
    LOCKSTEP_ASSIGN(LoadedRecipe loaded, load_recipe(files, twin->second));
    loaded.notes.push_back(
        fmt::format("{} is not here: using the built-in recipe {}, its twin", argument, twin->second));
    return loaded;
  }
  std::vector<std::string> names;
  for (const BuiltinRecipe& builtin : builtins) names.push_back(builtin.name);
  const std::string nearest = nearest_name(argument, names);
  const bool is_path =
      argument.find('/') != std::string::npos || ends_with(argument, ".toml") || ends_with(argument, ".py");
  return Status(Code::kUsage, is_path ? fmt::format("cannot read recipe {}: there is no such file", argument)
                                      : fmt::format("there is no recipe '{}'", argument))
      .with_hint(nearest.empty() ? fmt::format("built in are {}; a path of a .toml or nanoGPT .py file works "
                                               "too",
                                               fmt::join(names, ", "))
                                 : fmt::format("did you mean {}?", nearest));
}

}  // namespace lockstep
