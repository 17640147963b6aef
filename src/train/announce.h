// What `lockstep train` says before the first step: recipe, model, data, threads, memory, time. Pure text
// from values, plus the check that the memory plan fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/dataset.h"
#include "model/config.h"
#include "train/recipe.h"
#include "train/step.h"

namespace lockstep {

struct RunFacts {
  const Recipe* recipe = nullptr;
  const GptConfig* model = nullptr;
  const Dataset* dataset = nullptr;
  std::string out_dir;
  int64_t parameter_count = 0;
  int64_t parameter_count_without_positions = 0;
  int threads = 0;
  std::string threads_reason;
  std::string cpu, isa, gemm_library;
  bool slow_bf16 = false;  ///< --dtype bf16 on a CPU without instructions for it
  StepMemory memory;
  std::optional<uint64_t> available_bytes;
  int64_t micro_rows = 0;
};

std::vector<std::string> describe_run(const RunFacts& facts);

/// kUsage with the numbers and what to change when the plan is larger than what is available.
Status check_memory(const StepMemory& memory, std::optional<uint64_t> available_bytes);

/// Seconds from `step` to the end of the run, evaluations included, if a step takes step_s and a forward pass
/// a third of the time per token.
double estimate_remaining_s(const Recipe& recipe, const GptConfig& model, const Dataset& dataset,
                            int64_t step, double step_s);

}  // namespace lockstep
