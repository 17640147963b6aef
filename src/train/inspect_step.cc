#include "train/inspect_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/suggest.h"
#include "checkpoint/safetensors.h"
#include "model/gpt.h"
#include "optim/adamw.h"
#include "tensor/buffer.h"
#include "train/parameters_io.h"
#include "train/step.h"

namespace lockstep {
namespace {

struct InspectConfig {
  GptConfig model;
  AdamWConfig adamw;
  double learning_rate = 6e-4;
};

/// Reads one JSON object; every field is looked at once and unknown ones are errors.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& json, std::string path) : json_(json), path_(std::move(path)) {}

  Status size(const char* name, int64_t& value) {
    const auto* field = find(name);
    if (field == nullptr) return error(fmt::format("{} is missing", name));
    if (!field->is_number_unsigned() || field->get<uint64_t>() == 0)
      return error(fmt::format("{} is {}, not a positive whole number", name, field->dump()));
    if (field->get<uint64_t>() > uint64_t{1} << 40)
      return error(fmt::format("{} is {}, far too large", name, field->dump()));
    value = field->get<int64_t>();
    return Status::ok();
  }
  Status number(const char* name, double low, double high, double& value) {
    const auto* field = find(name);
    if (field == nullptr) return Status::ok();
    if (!field->is_number()) return error(fmt::format("{} is {}, not a number", name, field->dump()));
    value = field->get<double>();
    if (!(value >= low && value <= high))
      return error(fmt::format("{} is {}, which is outside {} … {}", name, value, low, high));
    return Status::ok();
  }
  Status boolean(const char* name, bool& value) {
    const auto* field = find(name);
    if (field == nullptr) return Status::ok();
    if (!field->is_boolean()) return error(fmt::format("{} is {}, not true or false", name, field->dump()));
    value = field->get<bool>();
    return Status::ok();
  }
  Status gelu(const char* name, kernels::Gelu& value) {
    const auto* field = find(name);
    if (field == nullptr) return Status::ok();
    if (*field == "erf") {
      value = kernels::Gelu::kErf;
    } else if (*field == "tanh") {
      value = kernels::Gelu::kTanh;
    } else {
      return error(fmt::format("{} is {}, not \"erf\" or \"tanh\"", name, field->dump()));
    }
    return Status::ok();
  }
  Status check_all_known() {
    for (const auto& [name, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      Status status = error(fmt::format("{} is not a field", name));
      const std::string nearest = nearest_name(name, known_);
      return nearest.empty() ? std::move(status)
                             : std::move(status).with_hint("did you mean " + nearest + "?");
    }
    return Status::ok();
  }

 private:
  const nlohmann::json* find(const char* name) {
    known_.emplace_back(name);
    const auto it = json_.find(name);
    return it == json_.end() ? nullptr : &*it;
  }
  Status error(const std::string& what) const {
    return Status(Code::kUsage, fmt::format("cannot use the configuration {}: {}", path_, what));
  }

  const nlohmann::json& json_;
  std::string path_;
  std::vector<std::string> known_;
};

Result<InspectConfig> read_config(FileSystem& files, const std::string& path) {
  constexpr uint64_t kConfigBytesMax = 1 << 20;
  LOCKSTEP_ASSIGN(const std::string text, files.read(path, kConfigBytesMax));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object())
    return Status(Code::kUsage,
                  fmt::format("cannot use the configuration {}: it is not a JSON object", path));
  InspectConfig config;
  ConfigReader reader(json, path);
  double dropout = 0.0;
  LOCKSTEP_TRY(reader.size("n_layer", config.model.n_layer));
  LOCKSTEP_TRY(reader.size("n_head", config.model.n_head));
  LOCKSTEP_TRY(reader.size("n_embd", config.model.n_embd));
  LOCKSTEP_TRY(reader.size("block_size", config.model.block_size));
  LOCKSTEP_TRY(reader.size("vocab_size", config.model.vocab_size));
  LOCKSTEP_TRY(reader.boolean("bias", config.model.bias));
  LOCKSTEP_TRY(reader.number("dropout", 0.0, 1.0, dropout));
  LOCKSTEP_TRY(reader.gelu("gelu", config.model.gelu));
  LOCKSTEP_TRY(reader.number("learning_rate", 0.0, 1e3, config.learning_rate));
  LOCKSTEP_TRY(reader.number("weight_decay", 0.0, 1e3, config.adamw.weight_decay));
  LOCKSTEP_TRY(reader.number("beta1", 0.0, 1.0 - 1e-12, config.adamw.beta1));
  LOCKSTEP_TRY(reader.number("beta2", 0.0, 1.0 - 1e-12, config.adamw.beta2));
  LOCKSTEP_TRY(reader.number("grad_clip", 0.0, 1e30, config.adamw.grad_clip));
  LOCKSTEP_TRY(reader.check_all_known());
  if (dropout != 0.0)
    return Status(Code::kUsage, fmt::format("cannot inspect a step with dropout {}", dropout))
        .with_hint("set dropout to 0: masks differ from program to program, so nothing could be compared");
  if (Status status = config.model.validate(); !status.is_ok())
    return std::move(status).with_context("cannot use the configuration " + path);
  return config;
}

struct Tokens {
  int64_t B = 0, T = 0;
  std::vector<int32_t> x, y;  // (B, T)
};

Result<std::vector<int32_t>> read_ids(const SafetensorsFile& file, const std::string& path, const char* name,
                                      int32_t lowest, int64_t vocab, std::vector<int64_t>& shape) {
  const TensorEntry* entry = file.find(name);
  const auto error = [&](const std::string& what) {
    return Status(Code::kData, fmt::format("cannot use the batch {}: {}", path, what));
  };
  if (entry == nullptr) return error(fmt::format("tensor {} is missing", name));
  if (entry->type != ElementType::kI32) return error(fmt::format("{} is not I32", name));
  if (entry->shape.size() != 2 || entry->bytes.empty())
    return error(fmt::format("{} has shape {}, not (batch, time)", name, format_shape(entry->shape)));
  shape = entry->shape;
  std::vector<int32_t> ids(entry->bytes.size() / sizeof(int32_t));
  std::memcpy(ids.data(), entry->bytes.data(), entry->bytes.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= lowest && ids[i] < vocab) continue;
    const auto T = static_cast<size_t>(shape[1]);
    return error(fmt::format("{}[{}, {}] is {}, which is outside {} … {}", name, i / T, i % T, ids[i], lowest,
                             vocab - 1));
  }
  return ids;
}

Result<Tokens> read_tokens(FileSystem& files, const std::string& path, const GptConfig& config) {
  LOCKSTEP_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(files, path));
  Tokens tokens;
  std::vector<int64_t> x_shape, y_shape;
  LOCKSTEP_ASSIGN(tokens.x, read_ids(file, path, "x", 0, config.vocab_size, x_shape));
  LOCKSTEP_ASSIGN(tokens.y, read_ids(file, path, "y", -1, config.vocab_size, y_shape));
  if (x_shape != y_shape)
    return Status(Code::kData, fmt::format("cannot use the batch {}: x is {} and y is {}", path,
                                           format_shape(x_shape), format_shape(y_shape)));
  tokens.B = x_shape[0];
  tokens.T = x_shape[1];
  if (tokens.T > config.block_size)
    return Status(Code::kData, fmt::format("cannot use the batch {}: time {} is longer than block_size {}",
                                           path, tokens.T, config.block_size));
  if (std::all_of(tokens.y.begin(), tokens.y.end(), [](int32_t id) { return id == -1; }))
    return Status(Code::kData,
                  fmt::format("cannot use the batch {}: every y is -1, so no token counts", path));
  return tokens;
}

}  // namespace

Result<InspectStepResult> inspect_step(FileSystem& files, const InspectStepOptions& options) {
  LOCKSTEP_ASSIGN(const InspectConfig config, read_config(files, options.config_path));
  LOCKSTEP_ASSIGN(const Tokens tokens, read_tokens(files, options.batch_path, config.model));
  const ParameterRegistry registry(config.model);
  Buffer params(static_cast<size_t>(registry.flat_count()) * sizeof(float));
  Buffer grads(params.bytes());
  LOCKSTEP_ASSIGN(const SafetensorsFile weights, SafetensorsFile::open(files, options.init_path));
  LOCKSTEP_TRY(read_parameters(weights, options.init_path, registry, params.floats()));

  const int64_t micro_rows = options.micro_rows > 0 ? std::min(options.micro_rows, tokens.B)
                                                    : choose_micro_rows(config.model, tokens.B, tokens.T);
  Gpt gpt(config.model, options.compute, micro_rows, tokens.T);
  gpt.parameters_changed(params.floats());
  const Batch batch{.B = tokens.B, .T = tokens.T, .x = tokens.x.data(), .y = tokens.y.data()};
  const LossSums sums = accumulate_gradients(gpt, batch, micro_rows, {}, params.floats(), grads.floats());

  AdamW adamw(registry, config.adamw);
  const UpdateNumbers numbers = make_update_numbers(config.adamw, 1, config.learning_rate,
                                                    adamw.gradient_square_sum(grads.floats()), sums.tokens);
  adamw.update(numbers, grads.floats(), params.floats());

  // The engine sums over tokens; the file holds the gradient of the mean loss.
  const auto token_count = static_cast<double>(sums.tokens);
  for (int64_t i = 0; i < registry.flat_count(); ++i)
    grads.floats()[i] = static_cast<float>(static_cast<double>(grads.floats()[i]) / token_count);
  const InspectStepResult result{.loss = sums.loss / token_count,
                                 .grad_norm = numbers.grad_norm,
                                 .tokens = sums.tokens,
                                 .parameters = registry.parameter_count()};
  float loss = static_cast<float>(result.loss);
  std::vector<NamedTensor> tensors{{.name = "loss", .shape = {}, .data = &loss}};
  for (auto& [flat, prefix] : {std::pair(grads.floats(), "grad."), std::pair(params.floats(), "param.")}) {
    const std::vector<NamedTensor> named = named_tensors(registry, flat, prefix);
    tensors.insert(tensors.end(), named.begin(), named.end());
  }
  if (auto hash = write_safetensors(files, options.out_path, entries_of(tensors)); !hash.is_ok())
    return std::move(hash).status();
  return result;
}

}  // namespace lockstep
