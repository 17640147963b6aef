// `lockstep bench step`: the speed of one training step (forward, backward, clip, AdamW) at a standard shape,
// beside the peak of the matrix products measured in the same run, between the steps, so that drift of the
// machine hits both.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "model/config.h"

namespace lockstep {

struct BenchStepOptions {
  std::string shape = "baby";  ///< tiny, baby or gpt2
  ComputeType compute = ComputeType::kFp32;
  int64_t steps = 0;       ///< measured steps; 0: as many as fit in about five seconds, at least 10
  int64_t warmup = 3;      ///< steps before, not counted
  int64_t micro_rows = 0;  ///< 0: as `train` chooses
  bool measure_peak = true;
};

/// The numbers as in docs/formats/bench.md; times in ms, rates per second, memory in MB (10^6 bytes).
struct BenchStepResult {
  BenchStepOptions options;
  int64_t batch = 0, time = 0, micro_rows = 0, parameters = 0;
  int threads = 0;
  double step_ms_min = 0.0, step_ms_median = 0.0;
  double tokens_per_s = 0.0;
  double gflops = 0.0;            ///< nanoGPT's formula at the median; it counts the masked half of attention
  double gemm_peak_gflops = 0.0;  ///< 0: not measured
  double rss_mb = 0.0;            ///< ru_maxrss after the warm-up, before the peak's own matrices exist
  double first_step_s = 0.0;      ///< from process start to the end of the first step
  double loss = 0.0;              ///< of the last step: shows that it trained
};

Result<BenchStepResult> bench_step(Clock& clock, const BenchStepOptions& options);
nlohmann::json to_json(const BenchStepResult& result);

}  // namespace lockstep
