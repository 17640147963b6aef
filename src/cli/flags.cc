// Values of flags that several commands share.
#include <fmt/format.h>

#include <charconv>

#include "base/log.h"
#include "cli/command.h"
#include "train/threads.h"

namespace lockstep::cli {
namespace {

template <typename Number>
Result<Number> number(const ParsedCommand& parsed, std::string_view flag, Number otherwise,
                      const char* wanted) {
  const std::string text = parsed.value(flag, "");
  if (text.empty()) return otherwise;
  Number result{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (error != std::errc() || stop != text.data() + text.size())
    return Status(Code::kUsage, fmt::format("cannot set --{} to '{}': it must be {}", flag, text, wanted));
  return result;
}

}  // namespace

Result<int64_t> whole_number(const ParsedCommand& parsed, std::string_view flag, int64_t otherwise) {
  return number<int64_t>(parsed, flag, otherwise, "a whole number");
}

Result<double> real_number(const ParsedCommand& parsed, std::string_view flag, double otherwise) {
  return number<double>(parsed, flag, otherwise, "a number");
}

Result<ComputeType> compute_type(const ParsedCommand& parsed) {
  const std::string text = parsed.value("dtype", "fp32");
  if (text == "fp32" || text == "float32") return ComputeType::kFp32;
  if (text == "bf16" || text == "bfloat16") return ComputeType::kBf16;
  return Status(Code::kUsage, fmt::format("cannot set --dtype to '{}': it must be fp32 or bf16", text));
}

Status use_threads_of(const ParsedCommand& parsed) {
  LOCKSTEP_ASSIGN(const int64_t requested, whole_number(parsed, "threads", 0));
  LOCKSTEP_ASSIGN(const ThreadsInUse threads, use_threads(real_file_system(), requested));
  if (!threads.choice.warning.empty()) log_warning("{}", threads.choice.warning);
  return Status::ok();
}

}  // namespace lockstep::cli
