#include "train/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

std::string bounds_text(const RecipeOption& option) {
  const auto bound = [&](double value) {
    return option.type() == OptionType::kInteger ? fmt::format("{}", static_cast<int64_t>(value))
                                                 : fmt::format("{}", value);
  };
  const char* kind = option.type() == OptionType::kInteger ? "a whole number" : "a number";
  if (option.open) return fmt::format("{} above {} and below {}", kind, bound(option.min), bound(option.max));
  return fmt::format("{} from {} to {}", kind, bound(option.min), bound(option.max));
}

std::string wanted_text(const RecipeOption& option) {
  switch (option.type()) {
    case OptionType::kInteger:
    case OptionType::kReal:
      return bounds_text(option);
    case OptionType::kBool:
      return "true or false";
    case OptionType::kText:
      break;
  }
  return option.choices.empty() ? "a text" : fmt::format("one of {}", fmt::join(option.choices, ", "));
}

Status wrong_value(const RecipeOption& option, const SettingValue& value, const std::string& where) {
  return Status(Code::kUsage, fmt::format("cannot set {} to {} ({}): it must be {}", option.name,
                                          format_setting_value(value), where, wanted_text(option)))
      .with_hint(option.help);
}

bool in_bounds(const RecipeOption& option, double value) {
  if (!std::isfinite(value)) return false;
  return option.open ? value > option.min && value < option.max : value >= option.min && value <= option.max;
}

/// nanoGPT names types as torch does.
std::string torch_dtype(const std::string& name) {
  if (name == "float32") return "fp32";
  if (name == "bfloat16") return "bf16";
  return name;
}

}  // namespace

std::string Recipe::out_dir_or_default() const {
  return out_dir.empty() ? "out-" + name : out_dir;
}

GptConfig Recipe::model_config(int64_t vocab) const {
  GptConfig config;
  config.n_layer = n_layer;
  config.n_head = n_head;
  config.n_embd = n_embd;
  config.block_size = block_size;
  config.vocab_size = vocab;
  config.bias = bias;
  config.gelu = gelu == "tanh" ? kernels::Gelu::kTanh : kernels::Gelu::kErf;
  config.dropout = static_cast<float>(dropout);
  return config;
}

AdamWConfig Recipe::adamw_config() const {
  AdamWConfig config;
  config.beta1 = beta1;
  config.beta2 = beta2;
  config.weight_decay = weight_decay;
  config.grad_clip = grad_clip;
  return config;
}

LearningRateSchedule Recipe::schedule() const {
  return {learning_rate, min_lr, warmup_iters, lr_decay_iters, decay_lr};
}

Sampling Recipe::sampling_kind() const {
  return sampling == "pass" ? Sampling::kPass : Sampling::kReplacement;
}

ComputeType Recipe::compute_type() const {
  return dtype == "bf16" ? ComputeType::kBf16 : ComputeType::kFp32;
}

std::string RecipeOption::flag() const {
  std::string result = name;
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

const RecipeOption* find_recipe_option(std::string_view name_or_flag) {
  std::string name(name_or_flag);
  std::replace(name.begin(), name.end(), '-', '_');
  for (const RecipeOption& option : recipe_options())
    if (option.name == name) return &option;
  return nullptr;
}

SettingValue option_value(const Recipe& recipe, const RecipeOption& option) {
  return std::visit([&](auto member) { return SettingValue(recipe.*member); }, option.field);
}

Status set_option(Recipe& recipe, const RecipeOption& option, const SettingValue& value,
                  const std::string& where) {
  if (const auto* member = std::get_if<int64_t Recipe::*>(&option.field)) {
    double number = NAN;
    if (const auto* integer = std::get_if<int64_t>(&value)) number = static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&value); real != nullptr && *real == std::floor(*real))
      number = *real;  // 6e5 is how people write 600000
    if (!in_bounds(option, number)) return wrong_value(option, value, where);
    recipe.** member = static_cast<int64_t>(number);
  } else if (const auto* real_member = std::get_if<double Recipe::*>(&option.field)) {
    double number = NAN;
    if (const auto* integer = std::get_if<int64_t>(&value)) number = static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&value)) number = *real;
    if (!in_bounds(option, number)) return wrong_value(option, value, where);
    recipe.** real_member = number;
  } else if (const auto* bool_member = std::get_if<bool Recipe::*>(&option.field)) {
    const auto* boolean = std::get_if<bool>(&value);
    if (boolean == nullptr) return wrong_value(option, value, where);
    recipe.** bool_member = *boolean;
  } else {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return wrong_value(option, value, where);
    const std::string chosen = option.name == "dtype" ? torch_dtype(*text) : *text;
    const bool known = option.choices.empty() || std::find(option.choices.begin(), option.choices.end(),
                                                           chosen) != option.choices.end();
    if (!known) return wrong_value(option, value, where);
    recipe.*std::get<std::string Recipe::*>(option.field) = chosen;
  }
  return Status::ok();
}

SettingValue value_for_option(const RecipeOption& option, std::string_view text) {
  if (option.type() == OptionType::kText) return std::string(text);
  if (option.type() == OptionType::kBool) {
    const std::string word = lower(text);
    if (word == "true" || word == "1" || word == "yes" || word == "on") return true;
    if (word == "false" || word == "0" || word == "no" || word == "off") return false;
    return std::string(text);
  }
  return guess_setting_value(text);
}

Status validate_recipe(const Recipe& recipe) {
  LOCKSTEP_TRY(recipe.model_config(std::max<int64_t>(recipe.vocab_size, 1)).validate());
  if (recipe.decay_lr && recipe.min_lr > recipe.learning_rate)
    return Status(Code::kUsage, fmt::format("cannot train: min_lr {} is above learning_rate {}",
                                            recipe.min_lr, recipe.learning_rate))
        .with_hint("set --min-lr to about a tenth of --learning-rate");
  if (recipe.decay_lr && recipe.warmup_iters > recipe.lr_decay_iters)
    return Status(Code::kUsage, fmt::format("cannot train: warmup_iters {} is above lr_decay_iters {}",
                                            recipe.warmup_iters, recipe.lr_decay_iters))
        .with_hint("shorten the warm-up, or set --lr-decay-iters to the length of the run");
  // Dropout masks and the display address a row of a step by 32 bits.
  if (recipe.rows_per_step() > INT32_MAX)
    return Status(Code::kUsage,
                  fmt::format("cannot train: batch_size {} times gradient_accumulation_steps {} is {} rows a "
                              "step, over {}",
                              recipe.batch_size, recipe.gradient_accumulation_steps, recipe.rows_per_step(),
                              INT32_MAX));
  if (recipe.device_type == "cuda")
    return Status(Code::kUsage, "cannot train on --device-type cuda: this version computes on the CPU only")
        .with_hint("leave the flag out, or use --device-type cpu");
  return Status::ok();
}

nlohmann::json recipe_to_json(const Recipe& recipe) {
  nlohmann::json json;
  json["name"] = recipe.name;
  for (const RecipeOption& option : recipe_options())
    std::visit([&](auto member) { json[option.name] = recipe.*member; }, option.field);
  return json;
}

Result<Recipe> recipe_from_json(const nlohmann::json& json) {
  Recipe recipe;
  if (!json.is_object()) return Status(Code::kData, "cannot read a stored recipe: it is not an object");
  if (const auto name = json.find("name"); name != json.end() && name->is_string())
    recipe.name = name->get<std::string>();
  for (const RecipeOption& option : recipe_options()) {
    const auto found = json.find(option.name);
    if (found == json.end()) continue;
    SettingValue value;
    if (found->is_boolean()) {
      value = found->get<bool>();
    } else if (found->is_number_integer()) {
      value = found->get<int64_t>();
    } else if (found->is_number()) {
      value = found->get<double>();
    } else if (found->is_string()) {
      value = found->get<std::string>();
    }
    if (Status set = set_option(recipe, option, value, "stored recipe"); !set.is_ok())
      return Status(Code::kData, set.message());
  }
  return recipe;
}

}  // namespace lockstep
