#include "train/evaluate.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "data/samples.h"

namespace lockstep {
namespace {

Evaluation mean_of(const LossSums& sums) {
  return {sums.tokens > 0 ? sums.loss / static_cast<double>(sums.tokens) : 0.0, sums.tokens};
}

}  // namespace

Evaluator::Evaluator(Gpt& model, int64_t micro_rows, uint64_t seed)
    : model_(model),
      micro_rows_(micro_rows),
      seed_(seed),
      x_(static_cast<size_t>(micro_rows * model.config().block_size)),
      y_(x_.size()) {}

std::optional<Evaluation> Evaluator::random_rows(std::span<const uint16_t> ids, Split split, int64_t rows,
                                                 const float* params,
                                                 const std::function<bool()>& keep_going) {
  const int64_t T = model_.config().block_size;
  const auto tokens = static_cast<int64_t>(ids.size());
  LOCKSTEP_CHECK_GT(tokens, T);
  const RandomStream stream(seed_, Purpose::kEvaluation, static_cast<uint32_t>(split));
  LossSums sums;
  for (int64_t row = 0; row < rows; row += micro_rows_) {
    if (!keep_going()) return std::nullopt;
    const int64_t B = std::min(micro_rows_, rows - row);
    for (int64_t b = 0; b < B; ++b) {
      const auto start = static_cast<int64_t>(
          stream.below(static_cast<uint64_t>(row + b), static_cast<uint64_t>(tokens - T)));
      copy_row(ids, start, T, x_.data() + b * T, y_.data() + b * T);
    }
    const LossSums part = model_.evaluate({B, T, x_.data(), y_.data(), nullptr}, params);
    sums.loss += part.loss;
    sums.tokens += part.tokens;
  }
  return mean_of(sums);
}

std::optional<Evaluation> Evaluator::whole_split(std::span<const uint16_t> ids, const float* params,
                                                 const std::function<bool(int64_t, int64_t)>& progress) {
  const int64_t T = model_.config().block_size;
  const int64_t targets = static_cast<int64_t>(ids.size()) - 1;
  LossSums sums;
  for (int64_t start = 0; start < targets;) {
    if (!progress(start, targets)) return std::nullopt;
    const int64_t time = std::min(T, targets - start);
    const int64_t B = std::min(micro_rows_, std::max<int64_t>(1, (targets - start) / time));
    for (int64_t b = 0; b < B; ++b)
      copy_row(ids, start + b * time, time, x_.data() + b * time, y_.data() + b * time);
    const LossSums part = model_.evaluate({B, time, x_.data(), y_.data(), nullptr}, params);
    sums.loss += part.loss;
    sums.tokens += part.tokens;
    start += B * time;
  }
  LOCKSTEP_CHECK_EQ(sums.tokens, targets);
  return mean_of(sums);
}

}  // namespace lockstep
