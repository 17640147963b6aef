// What a person sees while a command works: a bar redrawn in place on a terminal, plain lines elsewhere (at
// most one every few seconds, and always the first and the last). Pure formatting plus one output function:
// tests give their own sink and clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"

namespace lockstep {

/// What the train bar shows. Zero or NaN fields that are unknown are left out.
struct TrainProgress {
  int64_t step = 0, steps = 0;
  double loss = 0.0;
  double tokens_per_s = 0.0;
  double gflops = 0.0;
  double gemm_peak_gflops = 0.0;  ///< 0: not measured
  double remaining_s = 0.0;
  double eval_share = 0.0;  ///< fraction of the time so far spent evaluating
};

/// "1 h 02 min", "3 min 20 s", "12 s", "0.8 s".
std::string format_duration(double seconds);
/// "1.23 GB", "45.6 MB", "789 kB" (decimal units).
std::string format_bytes(double bytes);
/// 10646784 -> "10.65M", 795904 -> "0.80M".
std::string format_millions(double count);

/// The text after the bar, the same on a terminal and in plain lines.
std::string format_train_progress(const TrainProgress& progress);

class ProgressDisplay {
 public:
  /// terminal: redraw in place, at most ten times a second; width in columns.
  ProgressDisplay(std::function<void(std::string_view)> write, Clock& clock, bool terminal, int width);
  void update(const TrainProgress& progress);
  /// Prints a line above the bar.
  void print_line(const std::string& line);
  /// Draws the last state and ends the line.
  void finish();

 private:
  void draw();
  std::function<void(std::string_view)> write_;
  Clock& clock_;
  bool terminal_;
  int width_;
  bool drawn_ = false, pending_ = false;
  std::chrono::nanoseconds last_drawn_{0};
  TrainProgress progress_;
};

}  // namespace lockstep
