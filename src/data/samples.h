// The sample schedule: which rows of the training split a step uses. A pure function of (seed, step, slot):
// the same global sample is the same row on every machine, for ever, whoever computes it.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep {

enum class Sampling : uint8_t {
  kReplacement,  ///< independent uniform starts in [0, tokens - block_size), like nanoGPT
  kPass          ///< shuffled passes over the floor((tokens - 1) / block_size) disjoint blocks
};

class SampleSchedule {
 public:
  /// tokens > block_size.
  SampleSchedule(uint64_t seed, Sampling sampling, int64_t tokens, int64_t block_size);

  /// First token of the row in slot `slot` of `step`. first_sample is the global index of the step's slot 0
  /// (step * rows when the batch never changes); only kPass uses it, only kReplacement uses step.
  int64_t start(int64_t step, int64_t first_sample, int64_t slot) const;
  /// Passes begun or completed after `samples` samples, fractional (kPass), or samples * block_size / tokens.
  double passes(int64_t samples) const;

 private:
  uint64_t seed_;
  Sampling sampling_;
  int64_t tokens_, block_size_;
};

/// x = ids[start, start + T), y = ids[start + 1, start + T + 1), widened.
void copy_row(std::span<const uint16_t> ids, int64_t start, int64_t T, int32_t* x, int32_t* y);

}  // namespace lockstep
