// One training run on one machine, from a recipe to a finished OUT folder.
//
//   prepare   recipe and flags (or the newest valid checkpoint), data, memory plan; nothing is written yet
//   announce  what will run, on what, for how long
//   loop      steps; after each its metrics line, and when due an evaluation and a checkpoint
//   finish    last checkpoint, evaluation over the whole validation set
//
// An interruption finishes the step in flight when that takes at most ten seconds, else drops it; either way
// the state after the last applied step is saved, and resuming gives the bits of a run that never stopped. A
// failure (non-finite numbers, a full disk) never touches the last good checkpoint.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "base/status.h"
#include "train/setting.h"

namespace lockstep {

struct TrainRequest {
  std::optional<std::string> recipe;  ///< absent: `default`, or what the checkpoint says
  std::vector<Setting> settings;      ///< flags, in order
  bool resume = false;
  bool force = false;  ///< train even if the memory plan does not fit
  std::vector<std::string> data_path;
  bool allow_download = true;
};

/// What a run needs from the process around it.
struct TrainEnvironment {
  FileSystem& files;
  Clock& clock;
  std::function<void(std::string_view)> write;  ///< where the display goes
  bool terminal = false;
  int width = 0;  ///< columns of the terminal; 0: asked at every draw, so that a resized window is followed
  /// Signal number once the user wants to stop, else 0. May be null.
  const std::atomic<int>* stop_signal = nullptr;
  std::string version;       ///< for the record
  bool measure_peak = true;  ///< the GEMM peak, for the display
};

struct TrainSummary {
  std::string out_dir;
  int64_t step = 0;
  std::optional<double> val_loss;  ///< over the whole validation set
  bool interrupted = false;
};

Result<TrainSummary> train(const TrainRequest& request, const TrainEnvironment& environment);

/// The command that continues the run in `out_dir`.
std::string resume_command(const std::string& out_dir);

}  // namespace lockstep
