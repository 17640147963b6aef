// CHECKs for programmer errors: on in every build, print the condition, the place and the streamed values,
// abort.
//
//   LOCKSTEP_CHECK(rows > 0) << "rows=" << rows;
//   LOCKSTEP_CHECK_EQ(a.size(), b.size());
//
// Never reachable from bytes, files or flags: those are Status (base/status.h).
#pragma once

#include <sstream>

namespace lockstep::internal {

/// Collects the message; its destructor writes it to stderr and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

/// Lets a CHECK be an expression statement whatever was streamed into it.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace lockstep::internal

#define LOCKSTEP_CHECK(condition)                 \
  (condition) ? static_cast<void>(0)              \
              : ::lockstep::internal::Voidify() & \
                    ::lockstep::internal::CheckFailure(__FILE__, __LINE__, #condition).stream() << ' '

#define LOCKSTEP_CHECK_EQ(a, b) LOCKSTEP_CHECK((a) == (b)) << (a) << " != " << (b) << ' '
#define LOCKSTEP_CHECK_GE(a, b) LOCKSTEP_CHECK((a) >= (b)) << (a) << " < " << (b) << ' '
#define LOCKSTEP_CHECK_GT(a, b) LOCKSTEP_CHECK((a) > (b)) << (a) << " <= " << (b) << ' '
#define LOCKSTEP_CHECK_LE(a, b) LOCKSTEP_CHECK((a) <= (b)) << (a) << " > " << (b) << ' '
#define LOCKSTEP_CHECK_LT(a, b) LOCKSTEP_CHECK((a) < (b)) << (a) << " >= " << (b) << ' '
