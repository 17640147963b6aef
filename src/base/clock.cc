#include "base/clock.h"

#include <ctime>

namespace lockstep {
namespace {

class SystemClock final : public Clock {
 public:
  std::chrono::nanoseconds now() override { return read(CLOCK_BOOTTIME); }
  double unix_seconds() override { return std::chrono::duration<double>(read(CLOCK_REALTIME)).count(); }

 private:
  static std::chrono::nanoseconds read(clockid_t id) {
    timespec time{};
    clock_gettime(id, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
};

}  // namespace

Clock& real_clock() {
  static SystemClock clock;
  return clock;
}

}  // namespace lockstep
