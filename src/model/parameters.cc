#include "model/parameters.h"

#include <fmt/format.h>

#include <cmath>

#include "base/random.h"
#include "tensor/buffer.h"

namespace lockstep {
namespace {

constexpr float kInitStd = 0.02f;

/// Appends tensors with their offsets.
class Builder {
 public:
  explicit Builder(std::vector<ParameterSpec>& specs) : specs_(specs) {}

  void weight(std::string name, int64_t rows, int64_t cols, float std) {
    add({.name = std::move(name), .shape = {rows, cols}, .decays = true, .init_mean = 0.0f, .init_std = std});
  }
  void vector(std::string name, int64_t count, float value) {
    add({.name = std::move(name), .shape = {count}, .decays = false, .init_mean = value, .init_std = 0.0f});
  }
  void layer_norm(const std::string& name, int64_t count, bool bias) {
    vector(name + ".weight", count, 1.0f);
    if (bias) vector(name + ".bias", count, 0.0f);
  }
  void linear(const std::string& name, int64_t out, int64_t in, float std, bool bias) {
    weight(name + ".weight", out, in, std);
    if (bias) vector(name + ".bias", out, 0.0f);
  }
  int64_t flat_count() const { return flat_count_; }
  int64_t parameter_count() const { return parameter_count_; }

 private:
  void add(ParameterSpec spec) {
    spec.offset = flat_count_;
    spec.count = 1;
    for (int64_t size : spec.shape) spec.count *= size;
    flat_count_ += aligned_floats(spec.count);
    parameter_count_ += spec.count;
    specs_.push_back(std::move(spec));
  }

  std::vector<ParameterSpec>& specs_;
  int64_t flat_count_ = 0;
  int64_t parameter_count_ = 0;
};

}  // namespace

ParameterRegistry::ParameterRegistry(const GptConfig& config) {
  const int64_t C = config.n_embd;
  // Residual projections start smaller, so that the sum over 2 L branches keeps its variance (GPT-2
  // paper, 2.3).
  const float residual_std = kInitStd / std::sqrt(2.0f * static_cast<float>(config.n_layer));
  Builder builder(specs_);
  builder.weight("transformer.wte.weight", config.vocab_size, C, kInitStd);
  builder.weight("transformer.wpe.weight", config.block_size, C, kInitStd);
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    const std::string h = fmt::format("transformer.h.{}.", layer);
    builder.layer_norm(h + "ln_1", C, config.bias);
    builder.linear(h + "attn.c_attn", 3 * C, C, kInitStd, config.bias);
    builder.linear(h + "attn.c_proj", C, C, residual_std, config.bias);
    builder.layer_norm(h + "ln_2", C, config.bias);
    builder.linear(h + "mlp.c_fc", 4 * C, C, kInitStd, config.bias);
    builder.linear(h + "mlp.c_proj", C, 4 * C, residual_std, config.bias);
  }
  builder.layer_norm("transformer.ln_f", C, config.bias);
  flat_count_ = builder.flat_count();
  parameter_count_ = builder.parameter_count();
}

const ParameterSpec* ParameterRegistry::find(std::string_view name) const {
  for (const ParameterSpec& spec : specs_)
    if (spec.name == name) return &spec;
  return nullptr;
}

int64_t ParameterRegistry::parameter_count_without_positions() const {
  return parameter_count_ - find("transformer.wpe.weight")->count;
}

void ParameterRegistry::initialise(uint64_t seed, float* params) const {
  for (size_t tensor = 0; tensor < specs_.size(); ++tensor) {
    const ParameterSpec& spec = specs_[tensor];
    float* out = params + spec.offset;
    if (spec.init_std == 0.0f) {
      for (int64_t i = 0; i < spec.count; ++i) out[i] = spec.init_mean;
      continue;
    }
    const RandomStream random(seed, Purpose::kInit, static_cast<uint32_t>(tensor));
    const double mean = spec.init_mean, std = spec.init_std;
    const int64_t pairs = (spec.count + 1) / 2;
#pragma omp parallel for schedule(dynamic, 4096) if (pairs > 8192)
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const auto normals = random.normal_pair(static_cast<uint64_t>(pair));
      for (int64_t k = 0; k < 2 && 2 * pair + k < spec.count; ++k)
        out[2 * pair + k] = static_cast<float>(mean + std * normals[static_cast<size_t>(k)]);
    }
  }
}

}  // namespace lockstep
