#include "train/run_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using nlohmann::json;

constexpr int64_t kLayersMax = 1024;  // as the option's bound; a state file must not make us list millions

json model_to_json(const GptConfig& model) {
  return {{"n_layer", model.n_layer},       {"n_head", model.n_head},
          {"n_embd", model.n_embd},         {"block_size", model.block_size},
          {"vocab_size", model.vocab_size}, {"bias", model.bias},
          {"dropout", model.dropout},       {"gelu", model.gelu == kernels::Gelu::kTanh ? "tanh" : "erf"}};
}

// nlohmann throws type and range errors; they are turned into a Status in stored_run_from_json.
GptConfig model_from_json(const json& object) {
  GptConfig model;
  object.at("n_layer").get_to(model.n_layer);
  object.at("n_head").get_to(model.n_head);
  object.at("n_embd").get_to(model.n_embd);
  object.at("block_size").get_to(model.block_size);
  object.at("vocab_size").get_to(model.vocab_size);
  object.at("bias").get_to(model.bias);
  object.at("dropout").get_to(model.dropout);
  model.gelu = object.at("gelu").get<std::string>() == "tanh" ? kernels::Gelu::kTanh : kernels::Gelu::kErf;
  return model;
}

std::optional<double> optional_number(const json& object, const char* key) {
  const json& value = object.at(key);
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}

json number_or_null(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

RunState state_from_json(const json& object) {
  RunState state;
  object.at("step").get_to(state.step);
  object.at("samples").get_to(state.samples);
  object.at("tokens").get_to(state.tokens);
  object.at("lineage").get_to(state.lineage);
  object.at("generation").get_to(state.generation);
  state.loss = optional_number(object, "loss");
  state.val_loss = optional_number(object, "val_loss");
  object.at("evaluated_step").get_to(state.evaluated_step);
  object.at("train_s").get_to(state.train_s);
  object.at("eval_s").get_to(state.eval_s);
  return state;
}

}  // namespace

json stored_run_to_json(const RunState& state, const Recipe& recipe, const GptConfig& model,
                        const Dataset& dataset) {
  json run = {{"step", state.step},
              {"samples", state.samples},
              {"tokens", state.tokens},
              {"lineage", state.lineage},
              {"generation", state.generation},
              {"loss", number_or_null(state.loss)},
              {"val_loss", number_or_null(state.val_loss)},
              {"evaluated_step", state.evaluated_step},
              {"train_s", state.train_s},
              {"eval_s", state.eval_s}};
  json object;
  object["run"] = std::move(run);
  object["recipe"] = recipe_to_json(recipe);
  object["model"] = model_to_json(model);
  object["data"] = {{"name", dataset.name},
                    {"content_hash", dataset.content_hash},
                    {"train_tokens", dataset.train.size()},
                    {"val_tokens", dataset.val.size()}};
  object["tokenizer"] = nullptr;
  if (dataset.tokenizer) {
    json code_points = json::array();
    for (const char32_t code_point : dataset.tokenizer->code_points())
      code_points.push_back(static_cast<uint32_t>(code_point));
    object["tokenizer"] = {{"kind", "char"}, {"code_points", std::move(code_points)}};
  }
  return object;
}

Result<StoredRun> stored_run_from_json(const json& object, const std::string& path) {
  const std::string attempt = fmt::format("cannot use checkpoint {}", path);
  StoredRun stored;
  std::vector<char32_t> code_points;
  bool has_tokenizer = false;
  try {
    stored.state = state_from_json(object.at("run"));
    stored.model = model_from_json(object.at("model"));
    const json& data = object.at("data");
    data.at("name").get_to(stored.data_name);
    data.at("content_hash").get_to(stored.data_hash);
    data.at("train_tokens").get_to(stored.train_tokens);
    data.at("val_tokens").get_to(stored.val_tokens);
    if (const json& tokenizer = object.at("tokenizer"); !tokenizer.is_null()) {
      if (const auto kind = tokenizer.at("kind").get<std::string>(); kind != "char")
        return Status(Code::kData, fmt::format("{}: unknown tokenizer '{}'", attempt, kind));
      has_tokenizer = true;
      for (const json& code_point : tokenizer.at("code_points"))
        code_points.push_back(static_cast<char32_t>(code_point.get<uint32_t>()));
    }
    Result<Recipe> recipe = recipe_from_json(object.at("recipe"));
    if (!recipe.is_ok()) return std::move(recipe).status().with_context(attempt);
    stored.recipe = std::move(recipe).value();
  } catch (const json::exception& error) {
    return Status(Code::kData, fmt::format("{}: state.json: {}", attempt, error.what()));
  }
  if (Status shape = stored.model.validate(); !shape.is_ok())
    return Status(Code::kData, fmt::format("{}: {}", attempt, shape.message()));
  if (stored.model.n_layer > kLayersMax)
    return Status(Code::kData,
                  fmt::format("{}: n_layer {} is above {}", attempt, stored.model.n_layer, kLayersMax));
  if (stored.state.step < 0 || stored.state.samples < 0)
    return Status(Code::kData, fmt::format("{}: step {} and samples {} must not be negative", attempt,
                                           stored.state.step, stored.state.samples));
  if (has_tokenizer) {
    Result<CharTokenizer> tokenizer = CharTokenizer::from_code_points(std::move(code_points));
    if (!tokenizer.is_ok()) return std::move(tokenizer).status().with_context(attempt);
    stored.tokenizer = std::move(tokenizer).value();
  }
  return stored;
}

std::optional<LoggedEvaluation> last_logged_evaluation(FileSystem& files, const std::string& out_dir) {
  const auto text = files.read(out_dir + "/metrics.jsonl");
  if (!text.is_ok()) return std::nullopt;
  // From the end: the line wanted is among the last few of a finished run.
  for (size_t end = text->size(); end > 0;) {
    const size_t newline = text->rfind('\n', end - 1);
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    const json line = json::parse(text->begin() + static_cast<std::ptrdiff_t>(begin),
                                  text->begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    end = newline == std::string::npos ? 0 : newline;
    if (!line.is_object() || line.value("event", "") != "eval") continue;
    const json val_loss = line.value("val_loss", json());
    const json step = line.value("step", json());
    const json full = line.value("full", json());
    if (!val_loss.is_number() || !step.is_number_integer() || !full.is_boolean()) continue;
    return LoggedEvaluation{step.get<int64_t>(), val_loss.get<double>(), full.get<bool>()};
  }
  return std::nullopt;
}

}  // namespace lockstep
