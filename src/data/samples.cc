#include "data/samples.h"

#include <bit>

#include "base/check.h"
#include "base/random.h"

namespace lockstep {

SampleSchedule::SampleSchedule(uint64_t seed, Sampling sampling, int64_t tokens, int64_t block_size)
    : seed_(seed), sampling_(sampling), tokens_(tokens), block_size_(block_size) {
  LOCKSTEP_CHECK_GT(block_size, 0);
  LOCKSTEP_CHECK_GT(tokens, block_size);
}

int64_t SampleSchedule::start(int64_t step, int64_t first_sample, int64_t slot) const {
  LOCKSTEP_CHECK(step >= 0 && first_sample >= 0) << "step=" << step << " first_sample=" << first_sample;
  LOCKSTEP_CHECK(slot >= 0 && slot <= int64_t{UINT32_MAX}) << "slot=" << slot;
  if (sampling_ == Sampling::kReplacement) {
    const RandomStream stream(seed_, Purpose::kSamples, static_cast<uint32_t>(slot));
    return static_cast<int64_t>(
        stream.below(static_cast<uint64_t>(step), static_cast<uint64_t>(tokens_ - block_size_)));
  }
  const int64_t sample = first_sample + slot;
  return shuffled(seed_, sample / blocks(), sample % blocks(), blocks()) * block_size_;
}

double SampleSchedule::passes(int64_t samples) const {
  const auto done = static_cast<double>(samples);
  if (sampling_ == Sampling::kPass) return done / static_cast<double>(blocks());
  return done * static_cast<double>(block_size_) / static_cast<double>(tokens_);
}

int64_t shuffled(uint64_t seed, int64_t pass, int64_t position, int64_t count) {
  LOCKSTEP_CHECK(count > 0 && count < (int64_t{1} << 62)) << "count=" << count;
  LOCKSTEP_CHECK(position >= 0 && position < count) << "position=" << position << " count=" << count;
  LOCKSTEP_CHECK(pass >= 0 && pass <= int64_t{UINT32_MAX}) << "pass=" << pass;
  // Four rounds make a pseudorandom permutation of a good round function (Luby and Rackoff, 1988); eight
  // because a half may be only a bit or two wide here.
  constexpr uint32_t kRounds = 8;
  const int bits = std::bit_width(static_cast<uint64_t>(count - 1));
  const int half_bits = bits <= 2 ? 1 : (bits + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  const RandomStream stream(seed, Purpose::kShuffle, static_cast<uint32_t>(pass));
  auto value = static_cast<uint64_t>(position);
  do {  // walk the cycle until it comes back below count; it must, because position itself is below
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = left ^ (stream.words((uint64_t{round} << 32) | right)[0] & mask);
      left = right;
      right = mixed;
    }
    value = (left << half_bits) | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

void copy_row(std::span<const uint16_t> ids, int64_t start, int64_t T, int32_t* x, int32_t* y) {
  LOCKSTEP_CHECK(start >= 0 && T > 0 && start + T < static_cast<int64_t>(ids.size()))
      << "start=" << start << " T=" << T << " ids=" << ids.size();
  const uint16_t* row = ids.data() + start;
  for (int64_t t = 0; t < T; ++t) {
    x[t] = row[t];
    y[t] = row[t + 1];
  }
}

}  // namespace lockstep
