// A whole run of a model of a few thousand parameters on a file system in memory, for the tests of train.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/testing/fault_file_system.h"
#include "train/run.h"

namespace lockstep::testing {

inline constexpr int64_t kSmallRunSteps = 10;

/// Pairs of letters in random order: something to learn, never the same twice. 14 different characters.
std::string some_text(uint64_t seed);

Setting setting(const std::string& name, SettingValue value);

/// Ten steps of 5 rows of 16 tokens, evaluations after 4 and 8, checkpoints after 3, 6, 9 and 10, into out/.
TrainRequest small_run();
TrainRequest resumed_run();

/// A computer with text.txt on its disk and a user who may press Ctrl-C.
class Machine {
 public:
  Machine();
  Result<TrainSummary> run(const TrainRequest& request);

  /// The events of a kind in metrics.jsonl.
  std::vector<nlohmann::json> events(const std::string& kind) const;
  /// Weights and both moments of a checkpoint as bytes.
  std::string tensors(int64_t step) const;

  FaultFileSystem files;
  std::atomic<int> stop{0};
  std::string stop_at;  ///< Ctrl-C is pressed once this has been shown
  std::string shown;
};

/// The machine after a small_run() that nothing disturbed; one for the process.
Machine& undisturbed();

/// Only errors are logged while it lives.
class QuietLog {
 public:
  QuietLog() { set_log_level(LogLevel::kError); }
  ~QuietLog() { set_log_level(LogLevel::kInfo); }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
};

}  // namespace lockstep::testing
