#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lockstep::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << "lockstep: internal error: " << file << ':' << line << ": CHECK(" << condition << ") failed";
}

CheckFailure::~CheckFailure() {
  std::fprintf(stderr, "%s\n  hint: this is a bug in lockstep; please report it with the line above\n",
               stream_.str().c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace lockstep::internal
