// The sample schedule: which rows of the training split a step uses. A pure function of (seed, step, slot):
// the same global sample is the same row on every machine, for ever, whoever computes it.
//
// kReplacement draws with RandomStream(seed, kSamples, stream = slot).below(step, tokens - block_size).
// kPass numbers the disjoint blocks of the split and visits them in an order that is a keyed bijection of
// the block numbers, another one for every pass. No permutation is stored: a Feistel network with Philox as
// its round function permutes [0, 4^half_bits), and cycle walking cuts that down to [0, blocks): expected
// fewer than 4 evaluations. The numbers are part of what a checkpoint means; golden tests pin them.
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
  /// Disjoint rows in one pass.
  int64_t blocks() const { return (tokens_ - 1) / block_size_; }

 private:
  uint64_t seed_;
  Sampling sampling_;
  int64_t tokens_, block_size_;
};

/// The position-th element of pass `pass`'s permutation of [0, count); 0 <= position < count < 2^62,
/// 0 <= pass < 2^32.
int64_t shuffled(uint64_t seed, int64_t pass, int64_t position, int64_t count);

/// x = ids[start, start + T), y = ids[start + 1, start + T + 1), widened.
void copy_row(std::span<const uint16_t> ids, int64_t start, int64_t T, int32_t* x, int32_t* y);

}  // namespace lockstep
