// Evaluation: the mean loss without dropout, over fixed random rows on the way and over a whole split at the
// end. It draws from its own random stream and touches no training state, so a run with other evaluation
// settings trains the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/gpt.h"

namespace lockstep {

enum class Split : uint32_t { kTrain = 0, kVal = 1 };

struct Evaluation {
  double loss = 0.0;  ///< mean per token, nats
  int64_t tokens = 0;
};

class Evaluator {
 public:
  /// Uses `model` in micro-batches of `micro_rows` rows of its block_size.
  Evaluator(Gpt& model, int64_t micro_rows, uint64_t seed);

  /// `rows` rows at starts that depend on (seed, split, row) alone: the same in every evaluation of a run.
  /// ids.size() > block_size. nullopt when keep_going, asked between micro-batches, said no.
  std::optional<Evaluation> random_rows(std::span<const uint16_t> ids, Split split, int64_t rows,
                                        const float* params, const std::function<bool()>& keep_going);

  /// Every token but the first is predicted once: blocks of block_size, the last one shorter. `progress`
  /// gets tokens done and to do; returning false gives up.
  std::optional<Evaluation> whole_split(std::span<const uint16_t> ids, const float* params,
                                        const std::function<bool(int64_t, int64_t)>& progress);

 private:
  Gpt& model_;
  int64_t micro_rows_;
  uint64_t seed_;
  std::vector<int32_t> x_, y_;
};

}  // namespace lockstep
