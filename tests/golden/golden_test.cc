// The engine against PyTorch, tensor by tensor in the order of computation, so that the first wrong one is
// named: activations, logits, every gradient, then ten AdamW steps. Cases and tolerances:
// src/model/testdata/README.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "kernels/isa.h"
#include "model/gpt.h"
#include "optim/adamw.h"
#include "tensor/buffer.h"

namespace lockstep {
namespace {

struct GoldenCase {
  GptConfig config;
  AdamWConfig adamw;
  double learning_rate = 0.0;
  int64_t B = 0, T = 0, steps = 0;
  nlohmann::json tensors;
  SafetensorsFile file;
};

std::string data_path(const std::string& file) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/src/model/testdata/" + file;
}

GoldenCase load_case(const std::string& name) {
  std::ifstream in(data_path(name + ".json"));
  const nlohmann::json json = nlohmann::json::parse(in);
  const nlohmann::json& c = json.at("config");
  GoldenCase golden;
  golden.config = {.n_layer = c.at("n_layer"),
                   .n_head = c.at("n_head"),
                   .n_embd = c.at("n_embd"),
                   .block_size = c.at("block_size"),
                   .vocab_size = c.at("vocab_size"),
                   .bias = c.at("bias"),
                   .gelu = c.at("gelu") == "erf" ? kernels::Gelu::kErf : kernels::Gelu::kTanh};
  golden.adamw = {.beta1 = c.at("beta1"),
                  .beta2 = c.at("beta2"),
                  .weight_decay = c.at("weight_decay"),
                  .grad_clip = c.at("grad_clip")};
  golden.learning_rate = c.at("learning_rate");
  golden.B = json.at("batch");
  golden.T = json.at("time");
  golden.steps = json.at("steps");
  golden.tensors = json.at("tensors");
  auto file = SafetensorsFile::open(real_file_system(), data_path(name + ".safetensors"));
  EXPECT_TRUE(file.is_ok()) << file.status().message();
  golden.file = std::move(file).value();
  return golden;
}

std::span<const float> floats(const GoldenCase& golden, const std::string& name) {
  const TensorEntry* entry = golden.file.find(name);
  EXPECT_NE(entry, nullptr) << name;
  if (entry == nullptr) return {};
  return {reinterpret_cast<const float*>(entry->bytes.data()), entry->bytes.size() / sizeof(float)};
}

std::vector<int32_t> ids(const GoldenCase& golden, const std::string& name) {
  const TensorEntry* entry = golden.file.find(name);
  std::vector<int32_t> values(entry->bytes.size() / sizeof(int32_t));
  std::memcpy(values.data(), entry->bytes.data(), entry->bytes.size());
  return values;
}

/// Compares with one tolerance per tensor (json) and says how much of it was used.
void expect_near(const GoldenCase& golden, const std::string& name, const float* got, double scale = 1.0) {
  ASSERT_NE(got, nullptr) << name;
  const std::span<const float> want = floats(golden, name);
  const double tolerance = golden.tensors.at(name).at("tolerance");
  double worst = 0.0;
  size_t worst_index = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) * scale - static_cast<double>(want[i]));
    if (!(difference <= worst)) {
      worst = difference;
      worst_index = i;
    }
  }
  EXPECT_LE(worst, tolerance) << name << "[" << worst_index << "]: got "
                              << static_cast<double>(got[worst_index]) * scale << ", want "
                              << want[worst_index] << ", error / tolerance " << worst / tolerance;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = load_case(GetParam());
    const ParameterRegistry registry(golden_.config);
    params_ = Buffer(static_cast<size_t>(registry.flat_count()) * sizeof(float));
    grads_ = Buffer(params_.bytes());
    for (const ParameterSpec& spec : registry.specs())
      std::ranges::copy(floats(golden_, "init." + spec.name), params_.floats() + spec.offset);
    x_ = ids(golden_, "x");
    y_ = ids(golden_, "y");
  }
  Batch batch(int64_t step) const {
    return {.B = golden_.B,
            .T = golden_.T,
            .x = x_.data() + step * golden_.B * golden_.T,
            .y = y_.data() + step * golden_.B * golden_.T};
  }

  GoldenCase golden_;
  Buffer params_, grads_;
  std::vector<int32_t> x_, y_;
};

TEST_P(Golden, ActivationsLogitsAndGradients) {
  Gpt gpt(golden_.config, ComputeType::kFp32, golden_.B, golden_.T);
  gpt.parameters_changed(params_.floats());
  std::vector<float> logits(static_cast<size_t>(golden_.B * golden_.T * golden_.config.vocab_size));
  gpt.logits(batch(0), params_.floats(), logits.data());
  expect_near(golden_, "act.embed", gpt.kept_activation("embed"));
  for (int64_t layer = 0; layer < golden_.config.n_layer; ++layer)
    for (const char* what : {"qkv", "attn", "resid_mid", "fc", "resid"}) {
      const std::string name = fmt::format("h.{}.{}", layer, what);
      expect_near(golden_, "act." + name, gpt.kept_activation(name));
    }
  expect_near(golden_, "act.ln_f", gpt.kept_activation("ln_f"));
  expect_near(golden_, "act.logits", logits.data());

  const LossSums sums = gpt.forward_backward(batch(0), {}, params_.floats(), true, grads_.floats());
  for (const ParameterSpec& spec : gpt.parameters().specs())
    expect_near(golden_, "grad." + spec.name, grads_.floats() + spec.offset,
                1.0 / static_cast<double>(sums.tokens));
}

TEST_P(Golden, TenAdamWSteps) {
  Gpt gpt(golden_.config, ComputeType::kFp32, golden_.B, golden_.T);
  AdamW adamw(gpt.parameters(), golden_.adamw);
  const auto losses = floats(golden_, "losses"), loss_tolerances = floats(golden_, "losses_tolerance");
  const auto norms = floats(golden_, "grad_norms"), norm_tolerances = floats(golden_, "grad_norms_tolerance");
  for (int64_t step = 0; step < golden_.steps; ++step) {
    const auto index = static_cast<size_t>(step);
    gpt.parameters_changed(params_.floats());
    const LossSums sums = gpt.forward_backward(batch(step), {}, params_.floats(), true, grads_.floats());
    const UpdateNumbers numbers =
        make_update_numbers(golden_.adamw, step + 1, golden_.learning_rate,
                            adamw.gradient_square_sum(grads_.floats()), sums.tokens);
    EXPECT_NEAR(sums.loss / static_cast<double>(sums.tokens), losses[index], loss_tolerances[index])
        << "step " << step;
    EXPECT_NEAR(numbers.grad_norm, norms[index], norm_tolerances[index]) << "step " << step;
    adamw.update(numbers, grads_.floats(), params_.floats());
  }
  for (const ParameterSpec& spec : gpt.parameters().specs()) {
    const auto want = floats(golden_, "param." + spec.name),
               tolerance = floats(golden_, "param_tolerance." + spec.name);
    for (size_t i = 0; i < want.size(); ++i) {
      const float got = params_.floats()[static_cast<size_t>(spec.offset) + i];
      ASSERT_LE(std::abs(got - want[i]), tolerance[i])
          << spec.name << "[" << i << "]: got " << got << ", want " << want[i] << " after " << golden_.steps
          << " steps";
    }
  }
}

/// The same numbers under every instruction set of the element-wise kernels.
TEST_P(Golden, GradientsUnderEveryInstructionSet) {
  for (const std::string& isa : kernels::available_isas()) {
    SCOPED_TRACE(isa);
    ASSERT_TRUE(kernels::force_isa(isa));
    Gpt gpt(golden_.config, ComputeType::kFp32, golden_.B, golden_.T);
    gpt.parameters_changed(params_.floats());
    const LossSums sums = gpt.forward_backward(batch(0), {}, params_.floats(), true, grads_.floats());
    for (const ParameterSpec& spec : gpt.parameters().specs())
      expect_near(golden_, "grad." + spec.name, grads_.floats() + spec.offset,
                  1.0 / static_cast<double>(sums.tokens));
  }
  kernels::force_isa("");
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::Values("bias_erf", "nobias_erf", "bias_tanh", "nobias_tanh"),
                         [](const auto& test_info) { return test_info.param; });

}  // namespace
}  // namespace lockstep
