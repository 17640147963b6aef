#include "model/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/hash.h"
#include "tensor/buffer.h"

namespace lockstep {
namespace {

constexpr GptConfig kCharGpu{.n_layer = 6, .n_head = 6, .n_embd = 384, .block_size = 256, .vocab_size = 65};
constexpr GptConfig kCharCpu{.n_layer = 4, .n_head = 4, .n_embd = 128, .block_size = 64, .vocab_size = 65};
constexpr GptConfig kGpt2{
    .n_layer = 12, .n_head = 12, .n_embd = 768, .block_size = 1024, .vocab_size = 50257, .bias = true};

// nanoGPT's printed counts, and OpenAI's GPT-2.
TEST(Parameters, CountsAreThePublishedOnes) {
  EXPECT_EQ(ParameterRegistry(kCharGpu).parameter_count_without_positions(), 10'646'784);
  EXPECT_EQ(ParameterRegistry(kCharGpu).parameter_count(), 10'745'088);
  EXPECT_EQ(ParameterRegistry(kCharCpu).parameter_count_without_positions(), 795'904);
  EXPECT_EQ(ParameterRegistry(kCharCpu).parameter_count(), 804'096);
  EXPECT_EQ(ParameterRegistry(kGpt2).parameter_count(), 124'439'808);
  GptConfig padded = kGpt2;
  padded.vocab_size = 50304;
  padded.bias = false;
  EXPECT_EQ(ParameterRegistry(padded).parameter_count_without_positions(), 123'587'328);
  EXPECT_EQ(ParameterRegistry(padded).parameter_count(), 124'373'760);
}

TEST(Parameters, TensorsAreAlignedDisjointAndInOrder) {
  const ParameterRegistry registry(
      {.n_layer = 2, .n_head = 3, .n_embd = 21, .block_size = 5, .vocab_size = 7, .bias = true});
  int64_t end = 0;
  std::set<std::string> names;
  for (const ParameterSpec& spec : registry.specs()) {
    EXPECT_EQ(spec.offset % 16, 0) << spec.name;
    EXPECT_GE(spec.offset, end) << spec.name;
    EXPECT_LT(spec.offset - end, 16) << spec.name;
    end = spec.offset + spec.count;
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_EQ(spec.decays, spec.shape.size() >= 2) << spec.name;
    EXPECT_EQ(registry.find(spec.name), &spec);
  }
  EXPECT_EQ(registry.find("transformer.h.2.ln_1.weight"), nullptr);
  EXPECT_EQ(registry.flat_count(), aligned_floats(end));
}

TEST(Parameters, InitialWeightsHaveNanoGptsDistribution) {
  const ParameterRegistry registry(kCharGpu);
  Buffer params(static_cast<size_t>(registry.flat_count()) * sizeof(float));
  registry.initialise(1337, params.floats());
  for (const ParameterSpec& spec : registry.specs()) {
    const float* w = params.floats() + spec.offset;
    if (spec.init_std == 0.0f) {
      for (int64_t i = 0; i < spec.count; ++i)
        ASSERT_EQ(w[i], spec.name.ends_with("bias") ? 0.0f : 1.0f) << spec.name;
      continue;
    }
    const double want = spec.name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(12.0) : 0.02;
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < spec.count; ++i) {
      sum += static_cast<double>(w[i]);
      squares += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    }
    const auto n = static_cast<double>(spec.count);
    // Five standard errors of a mean (std / sqrt n) and of a standard deviation (std / sqrt 2n).
    EXPECT_LT(std::abs(sum / n), 5.0 * want / std::sqrt(n)) << spec.name;
    EXPECT_LT(std::abs(std::sqrt(squares / n) - want), 5.0 * want / std::sqrt(2.0 * n)) << spec.name;
  }
}

// Bits that never change: a seed names the same weights on every machine and in every version. The hash was
// taken from this code; what is checked is that nothing (threads, libm, order) moves it.
TEST(Parameters, ASeedNamesTheSameBitsForEver) {
  const ParameterRegistry registry(kCharCpu);
  Buffer params(static_cast<size_t>(registry.flat_count()) * sizeof(float));
  registry.initialise(1337, params.floats());
  EXPECT_EQ(xxh3_hex(params.view()), "cc294dd0aca392c64b5b1690e9142397");
  Buffer other(params.bytes());
  registry.initialise(1338, other.floats());
  EXPECT_NE(xxh3_hex(params.view()), xxh3_hex(other.view()));
}

TEST(GptConfig, ValidateNamesTheWrongValue) {
  EXPECT_TRUE(kGpt2.validate().is_ok());
  GptConfig config = kCharCpu;
  config.n_embd = 130;
  const Status status = config.validate();
  EXPECT_EQ(status.code(), Code::kUsage);
  EXPECT_EQ(status.message(), "n_embd 130 is not a multiple of n_head 4");
  EXPECT_EQ(status.hint(), "the nearest n_embd values are 128 and 132");
  config = kCharCpu;
  config.n_layer = 0;
  EXPECT_NE(config.validate().message().find("n_layer is 0"), std::string::npos);
  config = kCharCpu;
  config.dropout = 1.0f;
  EXPECT_NE(config.validate().message().find("dropout is 1"), std::string::npos);
  config = {.n_layer = 1 << 20, .n_head = 1, .n_embd = 1 << 20, .block_size = 1, .vocab_size = 1};
  EXPECT_NE(config.validate().message().find("parameters"), std::string::npos);
}

// 6 N + 12 L H Q T, N without wpe: 3.97 GF for 768 tokens of the CPU recipe, 1.16 TF for 16,384 of the GPU
// one.
TEST(GptConfig, FlopsPerTokenFollowNanoGptsFormula) {
  EXPECT_DOUBLE_EQ(flops_per_token(kCharCpu, 64), 6.0 * 795'904 + 12.0 * 4 * 128 * 64);
  EXPECT_DOUBLE_EQ(flops_per_token(kCharGpu, 256), 6.0 * 10'646'784 + 12.0 * 6 * 384 * 256);
}

}  // namespace
}  // namespace lockstep
