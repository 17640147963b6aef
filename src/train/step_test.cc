#include "train/step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernels/threads.h"

namespace lockstep {
namespace {

constexpr int64_t kRows = 7, kTime = 8;

StepConfig small(int64_t micro_rows, float dropout = 0.0f) {
  StepConfig config;
  config.model.n_layer = 2;
  config.model.n_head = 2;
  config.model.n_embd = 16;
  config.model.block_size = kTime;
  config.model.vocab_size = 11;
  config.model.bias = true;
  config.model.dropout = dropout;
  config.rows = kRows;
  config.micro_rows = micro_rows;
  config.seed = 5;
  return config;
}

std::vector<uint16_t> random_ids(size_t count, uint64_t bound) {
  const RandomStream random(3, Purpose::kTest);
  std::vector<uint16_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<uint16_t>(random.below(i, bound));
  return ids;
}

class Engine {
 public:
  explicit Engine(const StepConfig& config)
      : engine(config, real_clock()),
        ids(random_ids(500, 11)),
        schedule(config.seed, Sampling::kReplacement, 500, kTime) {
    engine.registry().initialise(9, engine.parameters());
    engine.parameters_changed();
  }
  StepWork compute(int64_t step, SlotRange slots) {
    return engine.compute(ids, schedule, step, (step - 1) * kRows, slots, [] { return true; });
  }
  std::vector<float> gradients() {
    const float* grads = engine.gradients();
    return {grads, grads + engine.registry().flat_count()};
  }
  std::vector<float> parameters() {
    const float* params = engine.parameters();
    return {params, params + engine.registry().flat_count()};
  }

  StepEngine engine;
  std::vector<uint16_t> ids;
  SampleSchedule schedule;
};

double norm(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

/// Norm of the difference over the norm, in units of what reordering sums can do: each gradient element is a
/// sum over the step's tokens of chains through two blocks whose products sum at most 4 C terms each, every
/// partial sum rounded by half an ulp.
double reordering_ratio(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  const double half_ulp = std::numeric_limits<float>::epsilon() / 2.0;
  const double terms = static_cast<double>(kRows * kTime) + 2.0 * (16.0 + 16.0 + 16.0 + 64.0) * 2.0;
  return norm(difference) / (half_ulp * terms * norm(a));
}

TEST(StepEngine, AnyMicroBatchGivesTheSameGradients) {
  for (const float dropout : {0.0f, 0.3f}) {
    Engine whole(small(kRows, dropout));
    const StepWork work = whole.compute(3, {0, kRows});
    EXPECT_EQ(work.tokens, kRows * kTime);
    ASSERT_GT(norm(whole.gradients()), 0.0);
    for (const int64_t micro : {1, 2, 3, 4}) {
      Engine parts(small(micro, dropout));
      const StepWork part_work = parts.compute(3, {0, kRows});
      EXPECT_EQ(part_work.tokens, work.tokens);
      const double ratio = reordering_ratio(whole.gradients(), parts.gradients());
      std::printf("dropout %.1f, micro-batches of %ld: error / tolerance %.3f\n",
                  static_cast<double>(dropout), static_cast<long>(micro), ratio);
      EXPECT_LE(ratio, 1.0);
      // The loss is summed in double from losses that are rounded to fp32 each.
      EXPECT_NEAR(part_work.loss_sum, work.loss_sum,
                  work.loss_sum * 64.0 * static_cast<double>(std::numeric_limits<float>::epsilon()));
    }
  }
}

TEST(StepEngine, SharesAddUpToTheWholeStep) {
  // What two ranks of uneven shares compute, added up: dropout and rows follow the slot, not the rank.
  Engine whole(small(2, 0.3f)), first(small(2, 0.3f)), second(small(2, 0.3f));
  const StepWork all = whole.compute(4, {0, kRows});
  const StepWork a = first.compute(4, {0, 3});
  const StepWork b = second.compute(4, {3, kRows});
  EXPECT_EQ(a.tokens + b.tokens, all.tokens);
  std::vector<float> sum = first.gradients();
  const std::vector<float> rest = second.gradients();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
  const double ratio = reordering_ratio(whole.gradients(), sum);
  std::printf("shares of 3 and 4 rows: error / tolerance %.3f\n", ratio);
  EXPECT_LE(ratio, 1.0);
}

TEST(StepEngine, StepsDiffer) {
  Engine engine(small(3, 0.3f));
  engine.compute(1, {0, kRows});
  const std::vector<float> first = engine.gradients();
  engine.compute(2, {0, kRows});
  EXPECT_GT(reordering_ratio(first, engine.gradients()), 1000.0) << "other rows, other masks";
  engine.compute(1, {0, kRows});
  EXPECT_EQ(first, engine.gradients()) << "nothing is left over from the step before";
}

TEST(StepEngine, ThreadsDoNotChangeABit) {
  const int threads = kernels::thread_count();
  std::vector<std::vector<float>> results;
  for (const int count : {1, 2, 3, 5}) {
    kernels::set_thread_count(count);
    Engine engine(small(2, 0.2f));
    for (int64_t step = 1; step <= 3; ++step) {
      const StepWork work = engine.compute(step, {0, kRows});
      const auto numbers = engine.engine.make_numbers(step, 1e-2, work);
      ASSERT_TRUE(numbers.is_ok());
      engine.engine.apply(*numbers);
    }
    results.push_back(engine.parameters());
  }
  kernels::set_thread_count(threads);
  for (size_t i = 1; i < results.size(); ++i) EXPECT_EQ(results[0], results[i]);
}

TEST(StepEngine, NonFiniteNumbersAreNamedAndNotApplied) {
  Engine engine(small(kRows));
  const StepWork work = engine.compute(1, {0, kRows});
  const std::vector<float> before = engine.parameters();
  StepWork bad = work;
  bad.loss_sum = NAN;
  EXPECT_EQ(engine.engine.make_numbers(1, 1e-3, bad).status().code(), Code::kNonFinite);
  engine.engine.gradients()[7] = INFINITY;
  const Status status = engine.engine.make_numbers(1, 1e-3, work).status();
  EXPECT_EQ(status.code(), Code::kNonFinite);
  EXPECT_NE(status.message().find("gradient norm is inf"), std::string::npos) << status.message();
  EXPECT_EQ(before, engine.parameters());
}

TEST(StepEngine, GivesUpBetweenMicroBatches) {
  Engine engine(small(2));
  int asked = 0;
  const StepWork work =
      engine.engine.compute(engine.ids, engine.schedule, 1, 0, {0, kRows}, [&] { return ++asked <= 2; });
  EXPECT_FALSE(work.complete);
  EXPECT_EQ(work.tokens, 2 * 2 * kTime);
}

TEST(StepEngine, TimingDoesNotTouchTheState) {
  Engine engine(small(3));
  const std::vector<float> before = engine.parameters();
  EXPECT_GE(engine.engine.time_micro_batch(), 0.0);
  EXPECT_EQ(before, engine.parameters());
}

TEST(StepEngine, PlanCountsWhatIsAllocated) {
  const StepConfig config = small(3);
  Engine engine(config);
  const StepMemory memory = StepEngine::plan(config);
  const auto flat = static_cast<size_t>(engine.engine.registry().flat_count()) * sizeof(float);
  EXPECT_EQ(memory.parameter_bytes, flat);
  EXPECT_EQ(memory.gradient_bytes, flat);
  EXPECT_EQ(memory.moment_bytes, 2 * flat);
  EXPECT_GT(memory.activation_bytes, 0u);
  EXPECT_LT(memory.activation_bytes, StepEngine::plan(small(kRows)).activation_bytes);
}

}  // namespace
}  // namespace lockstep
