// One "name = value" from a recipe file, a nanoGPT configuration or the command line, with the place it came
// from, so that an error can name the file and line or the flag.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace lockstep {

/// monostate is Python's None.
using SettingValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

struct Setting {
  std::string name;
  SettingValue value;
  std::string where;    ///< "--batch-size", "my.toml:7"
  std::string section;  ///< TOML table it stood in; "" at the top level and elsewhere
};

/// As a person would type it: 12, 0.5, true, 'text', none.
std::string format_setting_value(const SettingValue& value);

/// The value a command-line text means when nothing says of which type it is: true, True, false, False, None,
/// numbers, else the text itself.
SettingValue guess_setting_value(std::string_view text);

/// Settings of a TOML recipe, `where` = "path:line". kUsage naming line and cause on bad syntax, on arrays
/// and dates, and on tables in tables. The only file that sees toml++ is setting_toml.cc.
Result<std::vector<Setting>> parse_toml_settings(std::string_view text, const std::string& path);

/// Settings of a nanoGPT configuration file: lines `name = expression` with Python literals, parentheses and
/// + - * / // **, and names set on earlier lines; comments. Every other statement is refused with its line
/// number: this reads a configuration, it does not run a program.
Result<std::vector<Setting>> parse_nanogpt_settings(std::string_view text, const std::string& path);

}  // namespace lockstep
