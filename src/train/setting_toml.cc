// The adapter over toml++.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>

#include "train/setting.h"

namespace lockstep {
namespace {

std::string place(const std::string& path, const toml::source_position& position) {
  return fmt::format("{}:{}", path, position.line);
}

Status add_value(std::vector<Setting>& settings, const std::string& path, const std::string& section,
                 std::string name, const toml::node& node) {
  Setting setting{std::move(name), {}, place(path, node.source().begin), section};
  if (const auto* boolean = node.as_boolean()) {
    setting.value = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    setting.value = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    setting.value = real->get();
  } else if (const auto* text = node.as_string()) {
    setting.value = text->get();
  } else {
    return {Code::kUsage, fmt::format("cannot read recipe {}: {} must be a number, a text or true/false",
                                      setting.where, setting.name)};
  }
  settings.push_back(std::move(setting));
  return Status::ok();
}

}  // namespace

Result<std::vector<Setting>> parse_toml_settings(std::string_view text, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return Status(Code::kUsage, fmt::format("cannot read recipe {}: {}", place(path, error.source().begin),
                                            error.description()));
  }
  std::vector<Setting> settings;
  for (auto&& [key, node] : table) {
    const auto* section = node.as_table();
    if (section == nullptr) {
      LOCKSTEP_TRY(add_value(settings, path, "", std::string(key.str()), node));
      continue;
    }
    for (auto&& [inner_key, inner] : *section)
      LOCKSTEP_TRY(add_value(settings, path, std::string(key.str()), std::string(inner_key.str()), inner));
  }
  return settings;
}

}  // namespace lockstep
