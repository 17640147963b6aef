// What a person sees while a command works: a bar redrawn in place on a terminal, plain lines elsewhere (the
// first, the last, and in between at most one every five seconds). Pure formatting plus one output function:
// tests give their own sink, clock and width.
//
//   ███████▎             36%  step 720/2000  loss 2.1034  19.8k tok/s  3 min 20 s left  91.2 GFLOP/s …
//
// On a terminal a state is drawn at most ten times a second, as one line that is always shorter than the
// terminal: fields are shortened, then the last are left out where they do not fit, so nothing wraps and "\r"
// finds the line's begin again. The cursor is never hidden, so a killed process leaves nothing to repair. One
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace lockstep {

/// What the train bar shows. Fields that are zero or not finite are unknown and left out, except the loss,
/// which is shown as "nan" or "inf": that is news.
struct TrainProgress {
  int64_t step = 0, steps = 0;
  double loss = 0.0;
  double tokens_per_s = 0.0;
  double gflops = 0.0;            ///< GFLOP/s
  double gemm_peak_gflops = 0.0;  ///< 0: not measured
  double remaining_s = 0.0;
  double eval_share = 0.0;  ///< fraction of the time so far spent evaluating
};

/// "2 d 05 h", "1 h 02 min", "3 min 20 s", "12 s", "0.8 s" (one decimal below 10 s); "unknown" when negative
/// or not finite.
std::string format_duration(double seconds);
/// Three digits in decimal units: "1.23 GB", "45.6 MB", "789 kB", "12 B".
std::string format_bytes(double bytes);
/// 10646784 -> "10.65M", 795904 -> "0.80M".
std::string format_millions(double count);
/// 19834 -> "19.8k", 950 -> "950", 1234567 -> "1.23M".
std::string format_rate(double per_second);

/// The text after the bar, the same on a terminal and in plain lines.
std::string format_train_progress(const TrainProgress& progress);

/// Whether LC_ALL, LC_CTYPE or LANG (the first that is set and not empty) names UTF-8.
bool locale_is_utf8();
/// Columns of the terminal on stderr or stdout; else $COLUMNS; else 80.
int terminal_columns();

class ProgressDisplay {
 public:
  /// terminal: redraw in place. width: columns; 0 asks measure_width at every draw, so that a resized window
  /// is followed. utf8: block characters, else ASCII.
  ProgressDisplay(std::function<void(std::string_view)> write, Clock& clock, bool terminal, int width,
                  bool utf8 = locale_is_utf8(), std::function<int()> measure_width = terminal_columns);
  void update(const TrainProgress& progress);
  /// Prints a line at once: above the bar on a terminal.
  void print_line(const std::string& line);
  /// Draws the last state, if it has not been drawn, and ends the line. Later updates begin a new one.
  void finish();

 private:
  void draw();
  std::string bar_line(int columns) const;

  std::function<void(std::string_view)> write_;
  Clock& clock_;
  bool terminal_;
  int width_;
  bool utf8_;
  std::function<int()> measure_width_;
  bool drawn_ = false;    ///< something of the current display has been drawn
  bool pending_ = false;  ///< progress_ has not been drawn
  std::chrono::nanoseconds last_drawn_{0};
  TrainProgress progress_;
};

}  // namespace lockstep
