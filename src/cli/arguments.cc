// The adapter over CLI11: it splits words into flags, values and arguments; what they mean is decided by the
// commands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>

#include "base/suggest.h"
#include "cli/command.h"

namespace lockstep::cli {
namespace {

std::string snake(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// "--batch-size,--batch_size"
std::string both_spellings(const std::string& name, const std::string& suffix = "") {
  const std::string other = snake(name);
  std::string text = "--" + name + suffix;
  if (other != name) text += ",--" + other + suffix;
  return text;
}

Status unknown_flag(const Command& command, const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  std::vector<std::string> names{"help"};
  for (const Flag& flag : command.flags) {
    if (flag.hidden()) continue;
    names.push_back(flag.name);
    if (flag.kind == FlagKind::kBool) names.push_back("no-" + flag.name);
  }
  const std::string nearest = nearest_name(name, names);
  return Status(Code::kUsage,
                fmt::format("lockstep {} has no flag {}", command.name, word.substr(0, word.find('='))))
      .with_hint(nearest.empty() ? fmt::format("`lockstep {} --help` lists them", command.name)
                                 : fmt::format("did you mean --{}?", nearest));
}

struct Binding {
  const Flag* flag;
  CLI::Option* option;
  std::vector<std::string> values;
};

void bind(CLI::App& app, Binding& binding) {
  const Flag& flag = *binding.flag;
  switch (flag.kind) {
    case FlagKind::kValue:
    case FlagKind::kList:
    case FlagKind::kHiddenValue:
      binding.option = app.add_option(both_spellings(flag.name), binding.values);
      binding.option->expected(1)->type_size(1)->allow_extra_args(false);
      break;
    case FlagKind::kBool:
    case FlagKind::kHiddenBool: {
      std::string names = both_spellings(flag.name, "{true}");
      names += "," + both_spellings("no-" + flag.name, "{false}");
      if (const std::string other = snake(flag.name); other != flag.name)
        names += ",--no-" + other + "{false}";
      binding.option = app.add_flag(names, binding.values);
      break;
    }
    case FlagKind::kSwitch:
      binding.option = app.add_flag(both_spellings(flag.name, "{true}"), binding.values);
      break;
  }
  binding.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace

Result<ParsedCommand> parse_arguments(const Command& command, const std::vector<std::string>& words) {
  CLI::App app;
  app.allow_extras();
  app.set_help_flag("-h,--help");
  ParsedCommand parsed;
  std::vector<Binding> bindings;
  bindings.reserve(command.flags.size());  // CLI11 keeps addresses of the values
  try {
    for (const Flag& flag : command.flags) bind(app, bindings.emplace_back(Binding{&flag, nullptr, {}}));
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    parsed.help = true;
    return parsed;
  } catch (const CLI::Error& error) {
    return Status(Code::kUsage,
                  fmt::format("cannot read the flags of lockstep {}: {}", command.name, error.what()))
        .with_hint(fmt::format("`lockstep {} --help` explains them", command.name));
  }
  bool only_arguments = false;
  for (const std::string& word : app.remaining()) {
    if (!only_arguments && word == "--") {
      only_arguments = true;
    } else if (!only_arguments && word.size() > 1 && word[0] == '-') {
      return unknown_flag(command, word);
    } else {
      parsed.arguments.push_back(word);
    }
  }
  // In the order of the command line, so that of two flags for the same thing the last one counts.
  std::map<const CLI::Option*, size_t> taken;
  for (const CLI::Option* option : app.parse_order()) {
    const auto binding = std::find_if(bindings.begin(), bindings.end(),
                                      [&](const Binding& candidate) { return candidate.option == option; });
    if (binding == bindings.end()) continue;
    const size_t index = taken[option]++;
    if (index < binding->values.size())
      parsed.values.emplace_back(binding->flag->name, binding->values[index]);
  }
  if (parsed.arguments.size() < command.arguments_min || parsed.arguments.size() > command.arguments_max) {
    const std::string got =
        parsed.arguments.empty() ? "none" : fmt::format("'{}'", fmt::join(parsed.arguments, "' '"));
    return Status(Code::kUsage,
                  fmt::format("lockstep {} takes {} argument{}, got {}", command.name,
                              command.arguments_min == command.arguments_max
                                  ? fmt::format("{}", command.arguments_max)
                                  : fmt::format("{} to {}", command.arguments_min, command.arguments_max),
                              command.arguments_max == 1 ? "" : "s", got))
        .with_hint(fmt::format("usage: lockstep {} {}", command.name, command.usage));
  }
  return parsed;
}

bool ParsedCommand::has(std::string_view flag) const {
  return value(flag, "false") != "false";
}

std::string ParsedCommand::value(std::string_view flag, std::string_view otherwise) const {
  std::string result(otherwise);
  for (const auto& [name, text] : values)
    if (name == flag) result = text;
  return result;
}

std::vector<std::string> ParsedCommand::list(std::string_view flag) const {
  std::vector<std::string> result;
  for (const auto& [name, text] : values)
    if (name == flag) result.push_back(text);
  return result;
}

}  // namespace lockstep::cli
