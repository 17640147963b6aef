// What `lockstep inspect step` writes and refuses. Its numbers are compared with PyTorch's by tests/parity.
#include "train/inspect_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/testing/fault_file_system.h"
#include "checkpoint/safetensors.h"
#include "model/parameters.h"
#include "train/parameters_io.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kB = 3, kT = 5, kV = 7;

/// A model of odd sizes, its weights and a batch, as files.
class InspectStepTest : public ::testing::Test {
 protected:
  InspectStepTest() {
    config_ = {{"n_layer", 1},     {"n_head", 3},  {"n_embd", 9},          {"block_size", 6},
               {"vocab_size", kV}, {"bias", true}, {"learning_rate", 1e-2}};
    const RandomStream random(4, Purpose::kTest);
    for (uint64_t i = 0; i < kB * kT; ++i) {
      x_.push_back(static_cast<int32_t>(random.below(2 * i, kV)));
      y_.push_back(static_cast<int32_t>(random.below(2 * i + 1, kV)));
    }
    const GptConfig model{
        .n_layer = 1, .n_head = 3, .n_embd = 9, .block_size = 6, .vocab_size = kV, .bias = true};
    const ParameterRegistry registry(model);
    std::vector<float> params(static_cast<size_t>(registry.flat_count()));
    registry.initialise(3, params.data());
    std::vector<TensorEntry> entries;
    for (const NamedTensor& tensor : named_tensors(registry, params.data()))
      entries.push_back({.name = tensor.name,
                         .shape = tensor.shape,
                         .bytes = std::as_bytes(std::span(
                             tensor.data, static_cast<size_t>(registry.find(tensor.name)->count)))});
    EXPECT_TRUE(write_safetensors(files_, "w", std::move(entries)).is_ok());
  }

  Result<InspectStepResult> run(int64_t rows = kB, int64_t micro_rows = 0) {
    EXPECT_TRUE(write_file_atomically(files_, "c", config_.dump()).is_ok());
    const auto count = static_cast<size_t>(rows * kT);
    std::vector<TensorEntry> entries;
    for (const auto& [name, ids] : {std::pair("x", &x_), std::pair("y", &y_)})
      entries.push_back({.name = name,
                         .type = ElementType::kI32,
                         .shape = {rows, kT},
                         .bytes = std::as_bytes(std::span(*ids).first(count))});
    EXPECT_TRUE(write_safetensors(files_, "b", std::move(entries)).is_ok());
    return inspect_step(
        files_,
        {.config_path = "c", .init_path = "w", .batch_path = "b", .out_path = "o", .micro_rows = micro_rows});
  }
  Status failure() {
    const auto result = run();
    EXPECT_FALSE(result.is_ok());
    return result.status();
  }

  testing::FaultFileSystem files_;
  nlohmann::json config_;
  std::vector<int32_t> x_, y_;
};

TEST_F(InspectStepTest, WritesLossGradientsAndParametersUnderTheirNames) {
  const auto result = run();
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  EXPECT_EQ(result->tokens, kB * kT);
  // Weights of 0.02 on 9 channels of size 1 move a logit by about 0.02 * sqrt(9); a loss, by no more.
  EXPECT_NEAR(result->loss, std::log(static_cast<double>(kV)), 3 * 0.02 * 3);
  const auto file = SafetensorsFile::open(files_, "o");
  const auto weights = SafetensorsFile::open(files_, "w");
  ASSERT_TRUE(file.is_ok() && weights.is_ok());
  EXPECT_EQ(file->entries().size(), 1 + 2 * weights->entries().size());
  ASSERT_NE(file->find("loss"), nullptr);
  EXPECT_TRUE(file->find("loss")->shape.empty());
  for (const TensorEntry& weight : weights->entries())
    for (const char* prefix : {"grad.", "param."}) {
      const TensorEntry* entry = file->find(prefix + weight.name);
      ASSERT_NE(entry, nullptr) << prefix << weight.name;
      EXPECT_EQ(entry->shape, weight.shape);
      EXPECT_EQ(entry->type, ElementType::kF32);
      EXPECT_FALSE(std::ranges::equal(entry->bytes, weight.bytes)) << prefix << weight.name;
    }
}

TEST_F(InspectStepTest, IgnoredTargetsCountNothing) {
  std::fill(y_.begin() + (kB - 1) * kT, y_.end(), -1);
  const auto with_ignored_row = run(kB, 1);
  const auto without_it = run(kB - 1, 1);
  ASSERT_TRUE(with_ignored_row.is_ok() && without_it.is_ok());
  EXPECT_EQ(with_ignored_row->tokens, (kB - 1) * kT);
  // In micro-batches of one row the ignored one only adds zeros.
  EXPECT_EQ(with_ignored_row->loss, without_it->loss);
  EXPECT_EQ(with_ignored_row->grad_norm, without_it->grad_norm);
}

TEST_F(InspectStepTest, MistakesAreNamed) {
  const nlohmann::json sound = config_;
  const struct {
    const char* field;
    nlohmann::json value;
    const char* message;
  } cases[] = {{"dropout", 0.1, "dropout 0.1"},
               {"n_head", 2, "n_embd 9 is not a multiple of n_head 2"},
               {"n_layer", 0, "n_layer is 0"},
               {"bias", 1, "bias is 1, not true or false"},
               {"gelu", "relu", "gelu is \"relu\""},
               {"beta1", 1.0, "beta1 is 1"},
               {"n_layers", 1, "n_layers is not a field"}};
  for (const auto& c : cases) {
    config_ = sound;
    config_[c.field] = c.value;
    const Status status = failure();
    EXPECT_EQ(status.code(), Code::kUsage);
    EXPECT_THAT(status.message(), HasSubstr(c.message));
  }
  config_ = sound;
  config_.erase("n_embd");
  EXPECT_THAT(failure().message(), HasSubstr("n_embd is missing"));
  config_ = sound;
  config_["block_size"] = kT - 1;
  EXPECT_EQ(failure().code(), Code::kData) << "time above block_size, and weights of another shape";
  config_ = sound;
  y_[7] = -2;
  EXPECT_THAT(failure().message(), HasSubstr("y[1, 2] is -2, which is outside -1 … 6"));
  y_[7] = 0;
  x_[1] = kV;
  EXPECT_THAT(failure().message(), HasSubstr("x[0, 1] is 7"));
  x_[1] = 0;
  std::fill(y_.begin(), y_.end(), -1);
  EXPECT_EQ(failure().code(), Code::kData) << "nothing counts";
}

}  // namespace
}  // namespace lockstep
