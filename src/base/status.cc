#include "base/status.h"

namespace lockstep {

Status Status::with_context(std::string_view attempt) && {
  if (!is_ok()) message_ = std::string(attempt) + ": " + message_;
  return std::move(*this);
}

Status Status::with_hint(std::string hint) && {
  if (!is_ok() && hint_.empty()) hint_ = std::move(hint);
  return std::move(*this);
}

}  // namespace lockstep
