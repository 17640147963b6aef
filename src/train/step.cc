#include "train/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace lockstep {
namespace {

size_t flat_bytes(const ParameterRegistry& registry) {
  return static_cast<size_t>(registry.flat_count()) * sizeof(float);
}

StepConfig with_micro_rows(StepConfig config) {
  if (config.micro_rows == 0)
    config.micro_rows = choose_micro_rows(config.model, config.rows, config.model.block_size);
  return config;
}

}  // namespace

LossSums accumulate_gradients(Gpt& gpt, const Batch& batch, int64_t micro_rows, const DropoutContext& dropout,
                              const float* params, float* grads) {
  LossSums sums;
  for (int64_t row = 0; row < batch.B; row += micro_rows) {
    const Batch part{.B = std::min(micro_rows, batch.B - row),
                     .T = batch.T,
                     .x = batch.x + row * batch.T,
                     .y = batch.y + row * batch.T,
                     .slots = batch.slots == nullptr ? nullptr : batch.slots + row};
    const LossSums of_part = gpt.forward_backward(part, dropout, params, row == 0, grads);
    sums.loss += of_part.loss;
    sums.tokens += of_part.tokens;
  }
  return sums;
}

StepEngine::StepEngine(const StepConfig& config, Clock& clock)
    : config_(with_micro_rows(config)),
      clock_(clock),
      micro_rows_(config_.micro_rows),
      gpt_(config_.model, config_.compute, micro_rows_, config_.model.block_size),
      params_(flat_bytes(gpt_.parameters())),
      grads_(flat_bytes(gpt_.parameters())),
      adamw_(gpt_.parameters(), config_.adamw),
      x_(static_cast<size_t>(micro_rows_ * config_.model.block_size)),
      y_(x_.size()),
      slots_(static_cast<size_t>(micro_rows_)) {
  LOCKSTEP_CHECK_GE(config_.rows, 1);
}

StepMemory StepEngine::plan(const StepConfig& config) {
  const StepConfig full = with_micro_rows(config);
  const ParameterRegistry registry(full.model);
  const GptMemory model = Gpt::plan(full.model, full.compute, full.micro_rows, full.model.block_size);
  StepMemory memory;
  memory.parameter_bytes = flat_bytes(registry);
  memory.gradient_bytes = flat_bytes(registry);
  memory.moment_bytes = 2 * flat_bytes(registry);
  memory.activation_bytes = model.activation_bytes;
  memory.scratch_bytes = model.scratch_bytes;
  return memory;
}

StepWork StepEngine::compute(std::span<const uint16_t> ids, const SampleSchedule& schedule, int64_t step,
                             int64_t first_sample, SlotRange slots, const std::function<bool()>& keep_going) {
  const std::chrono::nanoseconds begin = clock_.now();
  const int64_t T = config_.model.block_size;
  StepWork work;
  work.samples.push_back(slots);
  const DropoutContext dropout{config_.seed, static_cast<uint32_t>(step)};
  for (int64_t slot = slots.first; slot < slots.second; slot += micro_rows_) {
    if (!keep_going()) {
      work.complete = false;
      break;
    }
    const int64_t B = std::min(micro_rows_, slots.second - slot);
    for (int64_t row = 0; row < B; ++row) {
      copy_row(ids, schedule.start(step, first_sample, slot + row), T, x_.data() + row * T,
               y_.data() + row * T);
      slots_[static_cast<size_t>(row)] = static_cast<uint32_t>(slot + row);
    }
    const Batch batch{B, T, x_.data(), y_.data(), slots_.data()};
    const LossSums sums =
        gpt_.forward_backward(batch, dropout, params_.floats(), slot == slots.first, grads_.floats());
    work.loss_sum += sums.loss;
    work.tokens += sums.tokens;
  }
  work.compute_ms = milliseconds_between(begin, clock_.now());
  return work;
}

Result<UpdateNumbers> StepEngine::make_numbers(int64_t step, double learning_rate, const StepWork& work) {
  LOCKSTEP_CHECK(work.complete && work.tokens > 0);
  const double mean_loss = work.loss_sum / static_cast<double>(work.tokens);
  if (!std::isfinite(mean_loss))
    return Status(Code::kNonFinite, fmt::format("cannot apply step {}: the loss is {}", step, mean_loss));
  const double square_sum = adamw_.gradient_square_sum(grads_.floats());
  if (!std::isfinite(square_sum))
    return Status(Code::kNonFinite,
                  fmt::format("cannot apply step {}: the loss is {:.4f}, but the gradient norm is {}", step,
                              mean_loss, std::sqrt(square_sum)));
  return make_update_numbers(config_.adamw, step, learning_rate, square_sum, work.tokens);
}

void StepEngine::apply(const UpdateNumbers& numbers) {
  adamw_.update(numbers, grads_.floats(), params_.floats());
  gpt_.parameters_changed(params_.floats());
}

double StepEngine::time_micro_batch() {
  std::fill(x_.begin(), x_.end(), 0);
  std::fill(y_.begin(), y_.end(), 0);
  const Batch batch{micro_rows_, config_.model.block_size, x_.data(), y_.data(), slots_.data()};
  const std::chrono::nanoseconds begin = clock_.now();
  gpt_.forward_backward(batch, {config_.seed, 0}, params_.floats(), true, grads_.floats());
  return milliseconds_between(begin, clock_.now());
}

}  // namespace lockstep
