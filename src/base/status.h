// Operating errors as values: Status, and Result<T> = a value or a Status.
//
// A Status carries a Code, which callers branch on and the command line turns into an exit code, a chain of
// messages from the outermost attempt to the innermost cause, and an optional hint: what the user can do.
// Programmer errors are CHECKs (base/check.h), never Status; bytes, files and flags never reach a CHECK.
// Both types are [[nodiscard]] and hold no lock; they may be moved between threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace lockstep {

/// What kind of failure it is. The values are the process exit codes (see docs/exit_codes.md).
enum class Code : uint8_t {
  kOk = 0,
  kUsage = 2,         ///< usage or configuration
  kData = 3,          ///< data missing, broken or unsuitable
  kTooFew = 4,        ///< too few members
  kNonFinite = 5,     ///< a loss or gradient is NaN or infinite
  kPeer = 6,          ///< cannot join, peer lost or timed out
  kReplica = 7,       ///< replicas differ
  kIo = 8,            ///< file system or device
  kInternal = 70,     ///< a bug in lockstep
  kInterrupted = 130  ///< SIGINT; the command line maps SIGTERM to 143
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok() { return {}; }

  bool is_ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  /// "attempt: cause: deeper cause"; empty when ok.
  const std::string& message() const { return message_; }
  /// What to do about it; may be empty.
  const std::string& hint() const { return hint_; }

  /// Puts the attempt in front of the cause: with_context("cannot read x") gives "cannot read x: <message>".
  Status with_context(std::string_view attempt) &&;
  /// Sets the hint unless a deeper level already gave one.
  Status with_hint(std::string hint) &&;

 private:
  Code code_ = Code::kOk;
  std::string message_;
  std::string hint_;
};

/// A T or the Status that says why there is none. Never holds an ok Status.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    LOCKSTEP_CHECK(!std::get<Status>(state_).is_ok()) << "Result made from an ok Status";
  }

  bool is_ok() const { return std::holds_alternative<T>(state_); }
  T& value() & {
    LOCKSTEP_CHECK(is_ok()) << status().message();
    return std::get<T>(state_);
  }
  const T& value() const& {
    LOCKSTEP_CHECK(is_ok()) << status().message();
    return std::get<T>(state_);
  }
  T&& value() && {
    LOCKSTEP_CHECK(is_ok()) << status().message();
    return std::get<T>(std::move(state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

  /// Ok when there is a value.
  Status status() const& { return is_ok() ? Status::ok() : std::get<Status>(state_); }
  Status status() && { return is_ok() ? Status::ok() : std::get<Status>(std::move(state_)); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace lockstep

#define LOCKSTEP_CONCAT_INNER(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_INNER(a, b)

/// Returns from the enclosing function with the Status of `expression` unless it is ok.
#define LOCKSTEP_TRY(expression)                                                              \
  do {                                                                                        \
    if (::lockstep::Status try_status = (expression); !try_status.is_ok()) return try_status; \
  } while (false)

/// LOCKSTEP_ASSIGN(auto x, f()): x becomes f()'s value, or the enclosing function returns f()'s Status.
#define LOCKSTEP_ASSIGN(left, expression) \
  LOCKSTEP_ASSIGN_INNER(LOCKSTEP_CONCAT(assign_result_, __LINE__), left, expression)
#define LOCKSTEP_ASSIGN_INNER(result, left, expression)   \
  auto result = (expression);                             \
  if (!result.is_ok()) return std::move(result).status(); \
  left = std::move(result).value()
