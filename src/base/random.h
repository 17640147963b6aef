// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC'11). A number is a pure function of (key, counter), so it does not matter who computes it,
// in what order or on how many threads. Keys and counters in use:
//   dropout:    key = seed, counter = (block of 4 elements, sample slot, step, site)
//   everything else: key = seed, counter = (index low, index high, stream, 0x80000000 | purpose)
// A site has bit 31 clear, so the two families never meet.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

/// One Philox4x32-10 block.
inline std::array<uint32_t, 4> philox(uint64_t key, std::array<uint32_t, 4> counter) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t p1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return counter;
}

/// What a stream of random numbers is for; part of the counter.
enum class Purpose : uint32_t {
  kInit = 1,
  kSamples = 2,
  kShuffle = 3,
  kEvaluation = 4,
  kSampling = 5,
  kTest = 6  ///< and the operands of benchmarks
};

/// The index-th number of a stream: random access, no state.
class RandomStream {
 public:
  RandomStream(uint64_t seed, Purpose purpose, uint32_t stream = 0)
      : seed_(seed), purpose_(0x80000000u | static_cast<uint32_t>(purpose)), stream_(stream) {}

  /// Four independent uniform 32-bit words.
  std::array<uint32_t, 4> words(uint64_t index) const {
    return philox(seed_,
                  {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), stream_, purpose_});
  }
  /// Uniform in [0, 1), 53 bits.
  double uniform(uint64_t index) const;
  /// Uniform integer in [0, bound), bound > 0: the high half of a 64x64 product, bias below bound / 2^64.
  uint64_t below(uint64_t index, uint64_t bound) const;
  /// Two independent standard normals by Box and Muller (1958) in double, from our own logarithm and sine:
  /// the same bits on every machine, whatever its libm.
  std::array<double, 2> normal_pair(uint64_t index) const;
  double normal(uint64_t index) const { return normal_pair(index)[0]; }

 private:
  uint64_t seed_;
  uint32_t purpose_;
  uint32_t stream_;
};

}  // namespace lockstep
