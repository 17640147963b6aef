// Properties of the passes that need no outside numbers (those are in tests/golden): what may not change
// anything.
#include "model/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/random.h"
#include "kernels/threads.h"
#include "tensor/buffer.h"

namespace lockstep {
namespace {

struct Case {
  GptConfig config;
  int64_t B, T;
  Buffer params;
  std::vector<int32_t> x{}, y{};
  std::vector<uint32_t> slots{};

  Batch batch(int64_t first = 0, int64_t rows = -1) const {
    return {.B = rows < 0 ? B - first : rows,
            .T = T,
            .x = x.data() + first * T,
            .y = y.data() + first * T,
            .slots = slots.data() + first};
  }
};

Case make_case(GptConfig config, int64_t B, int64_t T) {
  const ParameterRegistry registry(config);
  Case s{.config = config, .B = B, .T = T, .params = Buffer(static_cast<size_t>(registry.flat_count()) * 4)};
  registry.initialise(5, s.params.floats());
  const RandomStream random(6, Purpose::kTest);
  const auto V = static_cast<uint64_t>(config.vocab_size);
  for (uint64_t i = 0; i < static_cast<uint64_t>(B * T); ++i) {
    s.x.push_back(static_cast<int32_t>(random.below(2 * i, V)));
    s.y.push_back(i % 7 == 3 ? -1 : static_cast<int32_t>(random.below(2 * i + 1, V)));
  }
  for (int64_t b = 0; b < B; ++b) s.slots.push_back(static_cast<uint32_t>(3 * b + 1));
  return s;
}

constexpr GptConfig kSmall{
    .n_layer = 2, .n_head = 3, .n_embd = 33, .block_size = 21, .vocab_size = 71, .bias = true};

Buffer gradients(const Case& s, int64_t micro_rows, LossSums* sums = nullptr,
                 ComputeType compute = ComputeType::kFp32) {
  Gpt gpt(s.config, compute, micro_rows, s.T);
  Buffer grads(s.params.bytes());
  // Old contents must not matter: the first micro-batch overwrites.
  for (const ParameterSpec& spec : gpt.parameters().specs())
    std::fill_n(grads.floats() + spec.offset, spec.count, std::nanf(""));
  gpt.parameters_changed(s.params.floats());
  LossSums total;
  for (int64_t row = 0; row < s.B; row += micro_rows) {
    const LossSums part =
        gpt.forward_backward(s.batch(row, std::min(micro_rows, s.B - row)), {.seed = 9, .step = 4},
                             s.params.floats(), row == 0, grads.floats());
    total.loss += part.loss;
    total.tokens += part.tokens;
  }
  if (sums != nullptr) *sums = total;
  return grads;
}

/// Largest difference over a bound for sums of `terms` products in two orders, relative to the tensor's
/// largest value. The factor 64 covers the depth of the two-layer model, through which differences pass and
/// grow.
void expect_close(const ParameterRegistry& registry, const Buffer& a, const Buffer& b, double epsilon,
                  int64_t terms) {
  for (const ParameterSpec& spec : registry.specs()) {
    double largest = 0.0, worst = 0.0;
    for (int64_t i = spec.offset; i < spec.offset + spec.count; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(a.floats()[i])));
      worst =
          std::max(worst, std::abs(static_cast<double>(a.floats()[i]) - static_cast<double>(b.floats()[i])));
    }
    ASSERT_GT(largest, 0.0) << spec.name << " has no gradient: the test shows nothing";
    const double tolerance = 64.0 * epsilon * std::sqrt(static_cast<double>(terms)) * largest;
    EXPECT_LE(worst, tolerance) << spec.name << ": error / tolerance " << worst / tolerance;
  }
}

TEST(Gpt, MicroBatchesAddUpToTheBatch) {
  GptConfig config = kSmall;
  for (float dropout : {0.0f, 0.25f}) {
    config.dropout = dropout;
    const Case s = make_case(config, 5, 21);
    LossSums whole_sums, part_sums;
    const Buffer whole = gradients(s, 5, &whole_sums);
    for (int64_t micro_rows : {1, 2, 3}) {
      SCOPED_TRACE(micro_rows);
      const Buffer parts = gradients(s, micro_rows, &part_sums);
      EXPECT_EQ(whole_sums.tokens, part_sums.tokens);
      EXPECT_EQ(whole_sums.tokens, std::accumulate(s.y.begin(), s.y.end(), int64_t{0},
                                                   [](int64_t n, int32_t id) { return n + (id != -1); }));
      // With dropout this also shows that masks belong to sample slots, not to places in a micro-batch.
      EXPECT_NEAR(whole_sums.loss, part_sums.loss, 1e-6 * whole_sums.loss);
      expect_close(ParameterRegistry(config), whole, parts, 0x1p-24, s.B * s.T);
    }
  }
}

TEST(Gpt, ThreadCountDoesNotChangeABit) {
  GptConfig config = kSmall;
  config.dropout = 0.1f;
  const Case s = make_case(config, 4, 20);
  const int before = kernels::thread_count();
  kernels::set_thread_count(1);
  const Buffer one = gradients(s, 2);
  for (int threads : {2, 3, 5}) {
    kernels::set_thread_count(threads);
    const Buffer many = gradients(s, 2);
    EXPECT_EQ(std::memcmp(one.data(), many.data(), one.bytes()), 0) << threads << " threads";
  }
  kernels::set_thread_count(before);
}

TEST(Gpt, DropoutChangesTheLossAndEvaluationIgnoresIt) {
  GptConfig config = kSmall;
  const Case plain = make_case(config, 3, 21);
  config.dropout = 0.5f;
  const Case dropped = make_case(config, 3, 21);
  LossSums without, with;
  gradients(plain, 3, &without);
  gradients(dropped, 3, &with);
  EXPECT_NE(without.loss, with.loss);
  Gpt gpt(config, ComputeType::kFp32, 3, 21, false);
  gpt.parameters_changed(dropped.params.floats());
  EXPECT_NEAR(gpt.evaluate(dropped.batch(), dropped.params.floats()).loss, without.loss, 1e-6 * without.loss);
}

TEST(Gpt, ShorterAndSmallerBatchesFitThePlan) {
  const Case s = make_case(kSmall, 3, 7);
  Gpt planned_larger(kSmall, ComputeType::kFp32, 6, 21);
  planned_larger.parameters_changed(s.params.floats());
  Buffer grads(s.params.bytes());
  const LossSums sums =
      planned_larger.forward_backward(s.batch(), {}, s.params.floats(), true, grads.floats());
  LossSums exact;
  const Buffer want = gradients(s, 3, &exact);
  EXPECT_EQ(sums.loss, exact.loss);
  EXPECT_EQ(std::memcmp(grads.data(), want.data(), want.bytes()), 0);
}

// The directional derivative along the gradient itself: (L(p + h g) - L(p - h g)) / 2h = |g|^2. Two step
// widths give the curvature's part (it grows with h^2) and remove it; the loss is a sum in fp32, which gives
// the rest of the tolerance.
TEST(Gpt, GradientIsTheSlopeOfTheLoss) {
  for (const kernels::Gelu gelu : {kernels::Gelu::kErf, kernels::Gelu::kTanh}) {
    GptConfig config = kSmall;
    config.gelu = gelu;
    const Case s = make_case(config, 2, 13);
    const Buffer grads = gradients(s, 2);
    const ParameterRegistry registry(config);
    double square = 0.0;
    for (int64_t i = 0; i < registry.flat_count(); ++i)
      square += std::pow(static_cast<double>(grads.floats()[i]), 2);
    const double h = 0.005 / std::sqrt(square);
    Gpt gpt(config, ComputeType::kFp32, 2, 13);
    const auto loss_at = [&](double step) {
      Buffer moved(s.params.bytes());
      for (int64_t i = 0; i < registry.flat_count(); ++i)
        moved.floats()[i] = static_cast<float>(s.params.floats()[i] + step * grads.floats()[i]);
      gpt.parameters_changed(moved.floats());
      return gpt.evaluate(s.batch(), moved.floats()).loss;
    };
    const auto slope = [&](double step) { return (loss_at(step) - loss_at(-step)) / (2.0 * step); };
    const double at_h = slope(h), at_2h = slope(2.0 * h);
    const double noise = 16.0 * 0x1p-24 * loss_at(0.0) / h;
    const double tolerance = noise + std::abs(at_h - at_2h) / 3.0;
    EXPECT_LT(tolerance, 0.02 * square) << "the test could not fail";
    EXPECT_NEAR((4.0 * at_h - at_2h) / 3.0, square, tolerance);
  }
}

TEST(Gpt, Bf16IsCloseToFp32AndDiffersFromIt) {
  const Case s = make_case(kSmall, 3, 21);
  LossSums fp32, bf16;
  const Buffer want = gradients(s, 3, &fp32);
  const Buffer got = gradients(s, 3, &bf16, ComputeType::kBf16);
  EXPECT_NE(fp32.loss, bf16.loss);
  EXPECT_NEAR(bf16.loss / fp32.loss, 1.0, 0x1p-8);
  expect_close(ParameterRegistry(kSmall), want, got, 0x1p-9, 1);
}

TEST(Gpt, MemoryPlanGrowsWithTheBatchAndIsSmallerForEvaluation) {
  const GptMemory one = Gpt::plan(kSmall, ComputeType::kFp32, 1, 21),
                  four = Gpt::plan(kSmall, ComputeType::kFp32, 4, 21);
  const GptMemory eval = Gpt::plan(kSmall, ComputeType::kFp32, 4, 21, false);
  EXPECT_GT(four.activation_bytes, 3 * one.activation_bytes);
  EXPECT_LT(eval.activation_bytes, four.activation_bytes / 2);
}

TEST(GptDecoder, LogitsEqualTheFullForwardPass) {
  const Case s = make_case(kSmall, 2, 21);
  Gpt gpt(kSmall, ComputeType::kFp32, 2, 21, false);
  gpt.parameters_changed(s.params.floats());
  const auto V = static_cast<size_t>(kSmall.vocab_size);
  std::vector<float> full(static_cast<size_t>(s.B * s.T) * V), step(static_cast<size_t>(s.B) * V);
  gpt.logits(s.batch(), s.params.floats(), full.data());
  float largest = 0.0f;
  for (float value : full) largest = std::max(largest, std::abs(value));
  GptDecoder decoder(kSmall, s.B);
  for (int round = 0; round < 2; ++round) {  // a reset decoder has forgotten everything
    decoder.reset();
    for (int64_t t = 0; t < s.T; ++t) {
      const int32_t tokens[2] = {s.x[static_cast<size_t>(t)], s.x[static_cast<size_t>(s.T + t)]};
      decoder.append(tokens, s.params.floats(), step.data());
      EXPECT_EQ(decoder.length(), t + 1);
      for (size_t b = 0; b < 2; ++b)
        for (size_t v = 0; v < V; ++v)
          ASSERT_NEAR(step[b * V + v], full[(b * static_cast<size_t>(s.T) + static_cast<size_t>(t)) * V + v],
                      64 * 0x1p-24f * std::sqrt(33.0f) * largest)
              << "sequence " << b << " position " << t << " id " << v;
    }
  }
}

TEST(ChooseMicroRows, CoversTheBatchInEvenPieces) {
  const GptConfig baby{.n_layer = 6, .n_head = 6, .n_embd = 384, .block_size = 256, .vocab_size = 65};
  for (int64_t rows : {1, 2, 3, 5, 12, 64})
    for (int64_t time : {1, 7, 64, 256}) {
      const int64_t micro = choose_micro_rows(baby, rows, time);
      EXPECT_GE(micro, 1);
      EXPECT_LE(micro, rows);
    }
  EXPECT_EQ(choose_micro_rows(baby, 1, 256), 1);
}

}  // namespace
}  // namespace lockstep
