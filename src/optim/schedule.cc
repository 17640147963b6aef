#include "optim/schedule.h"

#include <cmath>
#include <numbers>

namespace lockstep {

double LearningRateSchedule::at(int64_t iteration) const {
  if (!decay) return learning_rate;
  const auto it = static_cast<double>(iteration), warmup = static_cast<double>(warmup_iters);
  if (iteration < warmup_iters) return learning_rate * (it + 1.0) / (warmup + 1.0);
  if (iteration > lr_decay_iters || lr_decay_iters <= warmup_iters) return min_lr;
  const double ratio = (it - warmup) / (static_cast<double>(lr_decay_iters) - warmup);
  return min_lr + 0.5 * (1.0 + std::cos(std::numbers::pi * ratio)) * (learning_rate - min_lr);
}

}  // namespace lockstep
