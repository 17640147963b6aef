// Log lines for people: stderr, one line each, "lockstep: …". Adapter over spdlog (its headers stay in
// log.cc). Results that are the product of a command go to stdout by fmt::print, never through here.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace lockstep {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Lines below this level are dropped. Default kInfo.
void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep
