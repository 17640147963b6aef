// lockstep: finds the command, parses, calls, prints, returns the exit code.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <new>

#include "base/suggest.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "kernels/isa.h"
#include "report/progress.h"

namespace lockstep::cli {
namespace {

int fail(const Status& status) {
  std::string text = fmt::format("error: {}\n", status.message());
  if (!status.hint().empty()) text += fmt::format("  hint: {}\n", status.hint());
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(status.code());
}

/// The exit code of a command whose result went to stdout.
int written() {
  const Status status = stdout_status();
  return status.is_ok() ? 0 : fail(status);
}

/// LOCKSTEP_ISA forces an instruction set, for measuring and for proving that all give the same bits.
Status force_isa_from_environment() {
  const char* name = std::getenv("LOCKSTEP_ISA");
  if (name == nullptr || name[0] == '\0' || kernels::force_isa(name)) return Status::ok();
  const std::vector<std::string> isas = kernels::available_isas();
  return Status(Code::kUsage, fmt::format("cannot use LOCKSTEP_ISA={}: this CPU or build lacks it", name))
      .with_hint(fmt::format("available: {}", fmt::join(isas, ", ")));
}

/// The command whose name starts the words, the longest; null when none does.
const Command* find_command(const std::vector<std::string>& words, size_t& words_used) {
  const Command* found = nullptr;
  for (const Command& command : commands()) {
    const size_t space = command.name.find(' ');
    const bool two = space != std::string::npos;
    if (words[0] != command.name.substr(0, space)) continue;
    if (two && (words.size() < 2 || words[1] != command.name.substr(space + 1))) continue;
    if (found == nullptr || two) {
      found = &command;
      words_used = two ? 2 : 1;
    }
  }
  return found;
}

Status unknown_command(const std::vector<std::string>& words) {
  std::vector<std::string> names, seconds;
  for (const Command& command : commands()) {
    const size_t space = command.name.find(' ');
    names.push_back(command.name.substr(0, space));
    if (space != std::string::npos && names.back() == words[0])
      seconds.push_back(command.name.substr(space + 1));
  }
  if (!seconds.empty()) {
    const bool has_second = words.size() > 1 && !words[1].starts_with("-");
    const std::string nearest = has_second ? nearest_name(words[1], seconds) : "";
    return Status(Code::kUsage, has_second
                                    ? fmt::format("lockstep {} has no command '{}'", words[0], words[1])
                                    : fmt::format("lockstep {} needs a command", words[0]))
        .with_hint(nearest.empty() ? fmt::format("lockstep {} {}", words[0],
                                                 fmt::join(seconds, fmt::format(", lockstep {} ", words[0])))
                                   : fmt::format("did you mean `lockstep {} {}`?", words[0], nearest));
  }
  const std::string nearest = nearest_name(words[0], names);
  return Status(Code::kUsage, fmt::format("lockstep has no command '{}'", words[0]))
      .with_hint(nearest.empty() ? "`lockstep help` lists them"
                                 : fmt::format("did you mean `lockstep {}`?", nearest));
}

int run(std::vector<std::string> words) {
  if (words.empty()) {
    std::fputs(program_help(terminal_columns()).c_str(), stderr);
    return static_cast<int>(Code::kUsage);
  }
  if (words[0] == "--version") words[0] = "version";
  if (words[0] == "help" || words[0] == "-h" || words[0] == "--help") {
    if (words.size() == 1) {
      write_stdout(program_help(terminal_columns()));
      return written();
    }
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  size_t words_used = 0;
  const Command* command = find_command(words, words_used);
  if (command == nullptr) return fail(unknown_command(words));
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(words_used));
  Result<ParsedCommand> parsed = parse_arguments(*command, words);
  if (!parsed.is_ok()) return fail(parsed.status());
  if (parsed->help) {
    write_stdout(command_help(*command, terminal_columns()));
    return written();
  }
  if (Status forced = force_isa_from_environment(); !forced.is_ok()) return fail(forced);
  const Result<int> code = command->run(*parsed);
  if (!code.is_ok()) return fail(code.status());
  // What training prints is a display: losing it loses nothing. For all others it is the result.
  return code.value() == 0 && command->name != "train" ? written() : code.value();
}

}  // namespace

}  // namespace lockstep::cli

int main(int argc, char** argv) {
  using lockstep::Code;
  // Libraries throw; an exception that gets here is our mistake, or memory has run out.
  try {
    return lockstep::cli::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\n  hint: close other programs or train a smaller model\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: unexpected: %s\n  hint: this is a bug in lockstep\n", error.what());
  }
  return static_cast<int>(Code::kInternal);
}
