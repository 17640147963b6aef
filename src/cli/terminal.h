// What the process is attached to, and how it is asked to stop.
#pragma once

#include <atomic>
#include <string_view>

#include "base/status.h"

namespace lockstep::cli {

bool stdout_is_terminal();

/// Writes to stdout at once; false when nobody reads any more (a closed pipe) or the disk is full.
bool write_stdout(std::string_view text);

/// kIo when something could not be written to stdout, other than that the reader of a pipe has left, which
/// is his right (`| head`).
Status stdout_status();

/// SIGINT and SIGTERM from now on set the flag once; a second one of the same kind ends the process at once.
/// SIGPIPE is ignored.
const std::atomic<int>& catch_stop_signals();

}  // namespace lockstep::cli
