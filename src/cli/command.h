// The commands as data: names, arguments, flags, help. The parser (arguments.cc), the help text (help.cc) and
// "did you mean" all read the same tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/config.h"

namespace lockstep::cli {

enum class FlagKind : unsigned char {
  kValue,       ///< --flag VALUE or --flag=VALUE; the last one counts
  kList,        ///< as kValue, may be repeated
  kBool,        ///< --flag, --no-flag, --flag=false
  kSwitch,      ///< --flag
  kHiddenBool,  ///< as kBool, accepted for nanoGPT's sake, not in the help
  kHiddenValue  ///< as kValue, likewise
};

struct Flag {
  std::string name;  ///< kebab-case without dashes; snake_case is accepted too
  FlagKind kind = FlagKind::kValue;
  bool hidden() const { return kind == FlagKind::kHiddenBool || kind == FlagKind::kHiddenValue; }
  std::string value_name;  ///< "N", "DIR"; "" for bools and switches
  std::string section;     ///< heading in the help
  std::string help;
};

struct ParsedCommand {
  std::vector<std::string> arguments;                       ///< positional
  std::vector<std::pair<std::string, std::string>> values;  ///< flag name, value; "true"/"false" for bools
  bool help = false;

  bool has(std::string_view flag) const;
  /// The last value of the flag, or `otherwise`.
  std::string value(std::string_view flag, std::string_view otherwise) const;
  std::vector<std::string> list(std::string_view flag) const;
};

struct Command {
  std::string name;   ///< "train", "inspect step"
  std::string usage;  ///< what follows the name
  size_t arguments_min = 0, arguments_max = 0;
  std::string summary;  ///< one line
  std::string details;  ///< paragraphs; may be empty
  std::vector<Flag> flags;
  /// Exit code, or the Status that main prints.
  Result<int> (*run)(const ParsedCommand& parsed);
};

/// All commands in the order of the help.
std::span<const Command> commands();

/// Reads what follows the command's name. kUsage with the nearest flag for an unknown one.
Result<ParsedCommand> parse_arguments(const Command& command, const std::vector<std::string>& words);

/// Help of one command, or of the program.
std::string command_help(const Command& command, int width);
std::string program_help(int width);

/// Breaks text into lines of at most `width` columns, each behind `indent` spaces.
std::string wrap(std::string_view text, int indent, int width);

/// A flag's value as a whole number or number; kUsage naming the flag.
Result<int64_t> whole_number(const ParsedCommand& parsed, std::string_view flag, int64_t otherwise);
Result<double> real_number(const ParsedCommand& parsed, std::string_view flag, double otherwise);

/// --dtype, fp32 when absent.
Result<ComputeType> compute_type(const ParsedCommand& parsed);
/// Uses --threads, or what this machine offers.
Status use_threads_of(const ParsedCommand& parsed);

// One function per command, each in its own file.
Command train_command();
Command sample_command();
Command inspect_command();
Command inspect_step_command();
Command bench_step_command();
Command data_prepare_command();
Command data_info_command();
Command version_command();

/// "0.1.0 (abc1234)"
std::string version_text();

}  // namespace lockstep::cli
