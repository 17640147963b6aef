// One step on this rank: the gradients of its sample slots as sums over tokens, then the update that follows
// from everybody's step records.
//
// The pieces are those of the life of a step (design, section 4), so that a collective fits in between:
//   compute()       forward and backward by micro-batch over this rank's slots -> StepWork (its record)
//   make_numbers()  all that needs the sums of all ranks, computed once
//   apply()         the same arithmetic on the same bits everywhere; the step is then applied
// Parameters, gradients, moments and activations are allocated by the constructor; nothing grows afterwards.
// One thread calls; the kernels use the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "data/samples.h"
#include "model/gpt.h"
#include "optim/adamw.h"
#include "tensor/buffer.h"

namespace lockstep {

/// Sample slots [begin, end) of a step.
using SlotRange = std::pair<int64_t, int64_t>;

/// What one rank did for a step; the content of its step record.
struct StepWork {
  double loss_sum = 0.0;  ///< over counted tokens, nats
  int64_t tokens = 0;
  std::vector<SlotRange> samples;
  double compute_ms = 0.0;
  bool complete = true;  ///< false: keep_going said no, the gradients are of no use
};

struct StepMemory {
  size_t parameter_bytes = 0, gradient_bytes = 0, moment_bytes = 0;
  size_t activation_bytes = 0, scratch_bytes = 0;
  size_t total_bytes() const {
    return parameter_bytes + gradient_bytes + moment_bytes + activation_bytes + scratch_bytes;
  }
};

struct StepConfig {
  GptConfig model;
  ComputeType compute = ComputeType::kFp32;
  AdamWConfig adamw;
  int64_t rows = 0;        ///< of the global batch
  int64_t micro_rows = 0;  ///< 0: choose_micro_rows
  uint64_t seed = 0;       ///< of dropout
};

/// Gradients of a whole batch, `micro_rows` rows at a time, summed over tokens into grads (flat,
/// overwritten).
LossSums accumulate_gradients(Gpt& gpt, const Batch& batch, int64_t micro_rows, const DropoutContext& dropout,
                              const float* params, float* grads);

class StepEngine {
 public:
  explicit StepEngine(const StepConfig& config, Clock& clock);
  static StepMemory plan(const StepConfig& config);

  /// Gradients of `slots` of `step` (the first step is 1), summed over tokens, into gradients(). first_sample
  /// is the global index of the step's slot 0. keep_going is asked between micro-batches.
  StepWork compute(std::span<const uint16_t> ids, const SampleSchedule& schedule, int64_t step,
                   int64_t first_sample, SlotRange slots, const std::function<bool()>& keep_going);

  /// kNonFinite when the loss or the gradient norm is not finite; nothing has been changed then.
  Result<UpdateNumbers> make_numbers(int64_t step, double learning_rate, const StepWork& work);

  void apply(const UpdateNumbers& numbers);

  /// To be called after parameters() were written from outside (initialised, loaded).
  void parameters_changed() { gpt_.parameters_changed(params_.floats()); }

  /// One forward and backward pass over one micro-batch of zeros, timed; gradients are overwritten, the state
  /// is not touched. Milliseconds.
  double time_micro_batch();

  float* parameters() { return params_.floats(); }
  const float* parameters() const { return params_.floats(); }
  float* gradients() { return grads_.floats(); }
  std::span<const std::byte> parameter_bytes() const { return params_.view(); }
  AdamW& optimizer() { return adamw_; }
  Gpt& model() { return gpt_; }
  const ParameterRegistry& registry() const { return gpt_.parameters(); }
  int64_t micro_rows() const { return micro_rows_; }
  int64_t rows() const { return config_.rows; }

 private:
  StepConfig config_;
  Clock& clock_;
  int64_t micro_rows_;
  Gpt gpt_;
  Buffer params_, grads_;
  AdamW adamw_;
  std::vector<int32_t> x_, y_;  // (micro_rows, block_size)
  std::vector<uint32_t> slots_;
};

}  // namespace lockstep
