#include "train/announce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/progress.h"

namespace lockstep {

std::vector<std::string> describe_run(const RunFacts& facts) {
  const Recipe& recipe = *facts.recipe;
  const GptConfig& model = *facts.model;
  const Dataset& data = *facts.dataset;
  const auto megabytes = [](size_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  std::vector<std::string> lines;
  lines.push_back(fmt::format("recipe {}: {} steps of {} rows of {} tokens, into {}", recipe.name,
                              recipe.max_iters, recipe.rows_per_step(), model.block_size, facts.out_dir));
  lines.push_back(fmt::format(
      "model: number of parameters {} ({} layers, {} heads, {} wide, vocabulary {}{}; {} with positions)",
      format_millions(static_cast<double>(facts.parameter_count_without_positions)), model.n_layer,
      model.n_head, model.n_embd, model.vocab_size, model.bias ? ", bias" : "", facts.parameter_count));
  const auto train_tokens = static_cast<double>(data.train.size());
  const double run_tokens =
      static_cast<double>(recipe.max_iters) * static_cast<double>(recipe.rows_per_step() * model.block_size);
  lines.push_back(fmt::format("data: {}, {} tokens to learn from and {} to validate; {:.1f} times over",
                              data.name, data.train.size(), data.val.size(), run_tokens / train_tokens));
  lines.push_back(fmt::format("computing: {} thread{} ({}), {}, {}, {}, {}", facts.threads,
                              facts.threads == 1 ? "" : "s", facts.threads_reason, facts.cpu, facts.isa,
                              facts.gemm_library, recipe.dtype));
  if (facts.slow_bf16)
    lines.push_back(
        "note: this CPU has no fast bf16 (AVX512-BF16 or AMX): --dtype bf16 works, fp32 is faster");
  const StepMemory& memory = facts.memory;
  lines.push_back(fmt::format(
      "memory: {} = parameters {} + gradients {} + moments {} + activations {} + scratch {}{}",
      megabytes(memory.total_bytes()), megabytes(memory.parameter_bytes), megabytes(memory.gradient_bytes),
      megabytes(memory.moment_bytes), megabytes(memory.activation_bytes), megabytes(memory.scratch_bytes),
      facts.available_bytes ? fmt::format("; {} available", megabytes(*facts.available_bytes)) : ""));
  if (facts.micro_rows < recipe.rows_per_step())
    lines.push_back(
        fmt::format("micro-batches of {} row{}", facts.micro_rows, facts.micro_rows == 1 ? "" : "s"));
  return lines;
}

Status check_memory(const StepMemory& memory, std::optional<uint64_t> available_bytes) {
  if (!available_bytes || memory.total_bytes() <= *available_bytes) return Status::ok();
  const auto text = [](uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  const size_t state = memory.parameter_bytes + memory.gradient_bytes + memory.moment_bytes;
  const bool shape_alone = state > *available_bytes;
  return Status(Code::kUsage, fmt::format("cannot train: the run needs {} of memory, {} is available",
                                          text(memory.total_bytes()), text(*available_bytes)))
      .with_hint(fmt::format(
          "{}; close other programs, or --force tries all the same",
          shape_alone ? fmt::format("weights, gradients and moments alone take {}: choose fewer --n-layer or "
                                    "a smaller --n-embd",
                                    text(state))
                      : "a shorter --block-size needs less"));
}

double estimate_remaining_s(const Recipe& recipe, const GptConfig& model, const Dataset& dataset,
                            int64_t step, double step_s) {
  const auto T = static_cast<double>(model.block_size);
  const double token_s = step_s / (static_cast<double>(recipe.rows_per_step()) * T);
  const double forward_s = token_s / 3.0;
  const auto steps = static_cast<double>(std::max<int64_t>(0, recipe.max_iters - step));
  const auto evaluations_until = [&](int64_t last_step) {
    return recipe.eval_interval > 0 ? last_step / recipe.eval_interval : 0;
  };
  const auto evaluations = static_cast<double>(evaluations_until(recipe.max_iters) -
                                               evaluations_until(std::min(step, recipe.max_iters)));
  const double evaluation_tokens = 2.0 * static_cast<double>(recipe.eval_iters * recipe.batch_size) * T;
  return steps * step_s +
         forward_s * (evaluations * evaluation_tokens + static_cast<double>(dataset.val.size()));
}

}  // namespace lockstep
