// A clock that moves only when the test says so.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace lockstep::testing {

class FakeClock final : public Clock {
 public:
  std::chrono::nanoseconds now() override { return now_; }
  double unix_seconds() override { return unix_seconds_; }

  void advance(std::chrono::nanoseconds by) {
    now_ += by;
    unix_seconds_ += std::chrono::duration<double>(by).count();
  }

 private:
  std::chrono::nanoseconds now_ = std::chrono::hours(1);  // not 0: nobody may rely on that
  double unix_seconds_ = 1.7e9;
};

}  // namespace lockstep::testing
