// The seam to time. now() is CLOCK_BOOTTIME: it goes on while a laptop sleeps. unix_seconds() is for stamps
// in files only; nothing is ever decided by it.
#pragma once

#include <chrono>

namespace lockstep {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Time since boot, suspended time included.
  virtual std::chrono::nanoseconds now() = 0;
  /// Seconds since 1970-01-01 UTC.
  virtual double unix_seconds() = 0;
};

/// The system's clock; one for the process.
Clock& real_clock();

/// Milliseconds between two readings of now().
inline double milliseconds_between(std::chrono::nanoseconds begin, std::chrono::nanoseconds end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

}  // namespace lockstep
