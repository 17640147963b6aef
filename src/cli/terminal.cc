#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace lockstep::cli {
namespace {

std::atomic<int> stop_signal{0};
std::atomic<int> stdout_error{0};  // errno of the last failed write, or 0
static_assert(std::atomic<int>::is_always_lock_free, "set from a signal handler");

extern "C" void on_stop_signal(int signal) {
  stop_signal.store(signal);
}

}  // namespace

bool stdout_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}

bool write_stdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      stdout_error = written < 0 ? errno : EIO;
      return false;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

Status stdout_status() {
  const int error = stdout_error.load();
  if (error == 0 || error == EPIPE) return Status::ok();
  return {Code::kIo, fmt::format("cannot write to standard output: {}", std::strerror(error))};
}

const std::atomic<int>& catch_stop_signals() {
  struct sigaction action{};
  action.sa_handler = on_stop_signal;
  // Reset: the second Ctrl-C finds the default action, which ends the process.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return stop_signal;
}

}  // namespace lockstep::cli
