#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"

namespace lockstep::cli {
namespace {

constexpr int kHelpIndent = 6;

std::string flag_heading(const Flag& flag) {
  std::string heading = fmt::format("--{}", flag.name);
  if (!flag.value_name.empty()) heading += fmt::format(" {}", flag.value_name);
  if (flag.kind == FlagKind::kBool) heading += fmt::format(", --no-{}", flag.name);
  return heading;
}

}  // namespace

std::string wrap(std::string_view text, int indent, int width) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  const size_t room = static_cast<size_t>(std::max(20, width - indent));
  std::string result, line;
  while (!text.empty()) {
    const size_t end = text.find_first_of(" \n");
    const std::string_view word = text.substr(0, end);
    if (!line.empty() && line.size() + 1 + word.size() > room) {
      result += margin + line + "\n";
      line.clear();
    }
    if (!word.empty()) line.append(line.empty() ? "" : " ").append(word);
    const bool line_ends = end != std::string_view::npos && text[end] == '\n';
    if (line_ends || end == std::string_view::npos) {
      if (!line.empty()) result += margin;
      result.append(line).append("\n");
      line.clear();
    }
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return result;
}

std::string command_help(const Command& command, int width) {
  std::string text = fmt::format("usage: lockstep {} {}\n\n", command.name, command.usage);
  text += wrap(command.summary, 0, width);
  if (!command.details.empty()) text.append("\n").append(wrap(command.details, 0, width));
  std::string section;
  for (const Flag& flag : command.flags) {
    if (flag.hidden()) continue;
    if (flag.section != section) {
      section = flag.section;
      text += fmt::format("\n{}:\n", section);
    }
    text += fmt::format("  {}\n{}", flag_heading(flag), wrap(flag.help, kHelpIndent, width));
  }
  return text;
}

std::string program_help(int width) {
  std::string text = "usage: lockstep COMMAND …\n\n";
  text += wrap(
      "Trains GPT models on the processors people own. `lockstep train` without anything else trains a small "
      "model on a built-in text; `lockstep sample out-default` then lets it write.",
      0, width);
  text += "\n";
  size_t longest = 0;
  for (const Command& command : commands()) longest = std::max(longest, command.name.size());
  for (const Command& command : commands())
    text += fmt::format("  {:<{}}  {}\n", command.name, longest, command.summary);
  text +=
      "\n`lockstep COMMAND --help` explains one. Exit codes: 0 done, 2 usage, 3 data, 5 non-finite\n"
      "numbers, 8 input or output, 70 a bug in lockstep, 130 or 143 interrupted (saved).\n";
  return text;
}

}  // namespace lockstep::cli
