// metrics.jsonl: one JSON object per line, a contract (docs/formats/metrics.md has every field with its
// unit). A line is appended whole, by one write; after a crash the file may end in a part of a line, which
// the next open cuts off. A line that could not be written whole (full disk) is cut off again before the next
// one. Numbers that are not finite become null: JSON has no word for them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"

namespace lockstep {

/// One rank's part of a step.
struct RankStep {
  int64_t rows = 0;
  std::vector<std::pair<int64_t, int64_t>> samples;  ///< slot intervals [begin, end)
  double compute_ms = 0.0, wait_ms = 0.0;
  std::optional<double> cpu_mhz;
};

struct StepEvent {
  int64_t step = 0;  ///< updates applied after it: the first step is 1
  double loss = 0.0, lr = 0.0, grad_norm = 0.0;
  int64_t tokens = 0;
  double step_ms = 0.0, tokens_per_s = 0.0;
  std::string lineage;
  int64_t generation = 0;
  int world_size = 1;
  std::vector<RankStep> ranks;
  double comm_ms = 0.0, comm_exposed_ms = 0.0;
  int64_t comm_bytes = 0;
  std::optional<double> comm_predicted_ms;
  std::optional<std::string> params_hash;
  double t_unix_s = 0.0;
};

struct EvalEvent {
  int64_t step = 0;
  std::optional<double> train_loss;  ///< null when the train split was not evaluated
  double val_loss = 0.0;
  int64_t tokens = 0;
  double eval_ms = 0.0;
  bool full = false;
};

class MetricsWriter {
 public:
  /// Appends to OUT/metrics.jsonl (OUT is made if missing). A torn last line is cut off first. With
  /// resume_step, lines about later steps (from a run that went on after the checkpoint of that step) are cut
  /// off too, so that every step stands once: from the first of them to the end of the file.
  static Result<MetricsWriter> open(FileSystem& files, const std::string& out_dir,
                                    std::optional<int64_t> resume_step);
  MetricsWriter(MetricsWriter&&) noexcept;
  MetricsWriter& operator=(MetricsWriter&&) noexcept;
  ~MetricsWriter();

  /// `run` is a free JSON object: configuration, host, threads, versions. "event" and "t_unix_s" are added.
  Status write_run(const nlohmann::json& run, double t_unix_s);
  Status write_step(const StepEvent& event);
  Status write_eval(const EvalEvent& event, double t_unix_s);
  Status write_checkpoint(int64_t step, const std::string& path, double save_ms, double t_unix_s);
  /// reason: "done", "interrupted" or "error".
  Status write_end(int64_t step, const std::string& reason, double t_unix_s);

 private:
  MetricsWriter(FileSystem& files, std::string path, std::unique_ptr<WritableFile> file, uint64_t bytes);
  Status write_line(const nlohmann::ordered_json& line);

  FileSystem* files_;
  std::string path_;
  std::unique_ptr<WritableFile> file_;
  uint64_t bytes_;     ///< of whole lines
  bool torn_ = false;  ///< a failed write may have left more than that
};

}  // namespace lockstep
