// Learning-rate schedules (pure).
#pragma once

#include <cstdint>

namespace lockstep {

/// nanoGPT's: linear warm-up, cosine to the minimum, or constant when !decay.
struct LearningRateSchedule {
  double learning_rate = 1e-3;
  double min_lr = 1e-4;
  int64_t warmup_iters = 100;
  int64_t lr_decay_iters = 5000;
  bool decay = true;

  /// it < warmup: lr * (it + 1) / (warmup + 1); it > decay_iters: min_lr; else cosine in between.
  double at(int64_t iteration) const;
};

}  // namespace lockstep
