#include "data/meta.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/log.h"
#include "data/pickle.h"
#include "data/utf8.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "lockstep-tokens";

Status meta_error(std::string reason) {
  return Status(Code::kData, std::move(reason))
      .with_hint("`lockstep data prepare` writes it afresh; its fields are in docs/formats/tokens.md");
}

// For messages, however large the value in the file is.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

Result<int64_t> integer_field(const Json& json, const char* name, int64_t smallest, int64_t largest) {
  const auto field = json.find(name);
  if (field == json.end()) return meta_error(fmt::format("there is no {} in it", name));
  const bool fits = field->is_number_integer() &&
                    !(field->is_number_unsigned() && field->get<uint64_t>() > uint64_t{INT64_MAX});
  if (!fits || field->get<int64_t>() < smallest || field->get<int64_t>() > largest)
    return meta_error(
        fmt::format("{} is {}, it must be an integer in {} to {}", name, shown(*field), smallest, largest));
  return field->get<int64_t>();
}

Result<std::string> text_field(const Json& json, const char* name) {
  const auto field = json.find(name);
  if (field == json.end()) return std::string();
  if (!field->is_string()) return meta_error(fmt::format("{} is no string", name));
  return field->get<std::string>();
}

// The tokenizer of a table id -> string, or none when the strings are not single characters.
Result<std::optional<CharTokenizer>> tokenizer_of(const std::vector<std::string>& table, int64_t vocab_size) {
  if (static_cast<int64_t>(table.size()) > vocab_size)
    return meta_error(fmt::format("{} characters, but vocab_size is {}", table.size(), vocab_size));
  std::vector<char32_t> code_points;
  for (size_t id = 0; id < table.size(); ++id) {
    const Utf8Step step = table[id].empty() ? Utf8Step{} : utf8_step(table[id], 0);
    if (step.bytes == 0 || step.bytes != table[id].size()) {
      log_warning(
          "id {} of the vocabulary stands for a string that is not one character: prompts and samples "
          "cannot be shown as text",
          id);
      return std::optional<CharTokenizer>();
    }
    code_points.push_back(step.code_point);
  }
  if (code_points.empty()) return std::optional<CharTokenizer>();
  LOCKSTEP_ASSIGN(CharTokenizer tokenizer, CharTokenizer::from_code_points(std::move(code_points)));
  return std::optional<CharTokenizer>(std::move(tokenizer));
}

Result<Meta> parse_meta_pickle(std::string_view bytes) {
  LOCKSTEP_ASSIGN(const PickledMeta pickled, read_pickled_meta(bytes));
  Meta meta;
  meta.vocab_size = pickled.vocab_size;
  LOCKSTEP_ASSIGN(meta.tokenizer, tokenizer_of(pickled.itos, pickled.vocab_size));
  return meta;
}

}  // namespace

Result<Meta> parse_meta_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return meta_error("it is no JSON object");
  LOCKSTEP_ASSIGN(const std::string format, text_field(json, "format"));
  if (!format.empty() && format != kFormat)
    return meta_error(fmt::format("format is {}, \"{}\" is what is read", shown(format), kFormat));
  if (json.contains("version")) LOCKSTEP_TRY(integer_field(json, "version", 1, 1).status());
  Meta meta;
  LOCKSTEP_ASSIGN(meta.vocab_size, integer_field(json, "vocab_size", 1, 65536));
  if (json.contains("train_tokens")) {
    LOCKSTEP_ASSIGN(meta.train_tokens, integer_field(json, "train_tokens", 1, INT64_MAX));
  }
  if (json.contains("val_tokens")) {
    LOCKSTEP_ASSIGN(meta.val_tokens, integer_field(json, "val_tokens", 1, INT64_MAX));
  }
  LOCKSTEP_ASSIGN(meta.train_sha256, text_field(json, "train_sha256"));
  LOCKSTEP_ASSIGN(meta.val_sha256, text_field(json, "val_sha256"));
  if (const auto characters = json.find("characters"); characters != json.end()) {
    if (!characters->is_array()) return meta_error("characters is no list");
    std::vector<std::string> table;
    for (const Json& character : *characters) {
      if (!character.is_string()) return meta_error(fmt::format("characters[{}] is no string", table.size()));
      table.push_back(character.get<std::string>());
    }
    LOCKSTEP_ASSIGN(meta.tokenizer, tokenizer_of(table, meta.vocab_size));
  }
  return meta;
}

std::string meta_json(const Meta& meta) {
  Json json;
  json["format"] = kFormat;
  json["version"] = 1;
  json["vocab_size"] = meta.vocab_size;
  json["train_tokens"] = meta.train_tokens;
  json["val_tokens"] = meta.val_tokens;
  json["train_sha256"] = meta.train_sha256;
  json["val_sha256"] = meta.val_sha256;
  if (meta.tokenizer) {
    Json characters = Json::array();
    for (const char32_t code : meta.tokenizer->code_points()) {
      std::string character;
      append_utf8(code, character);
      characters.push_back(std::move(character));
    }
    json["characters"] = std::move(characters);
  }
  return json.dump(1, ' ', /*ensure_ascii=*/true) + "\n";
}

Result<std::optional<Meta>> read_meta(FileSystem& files, const std::string& directory) {
  for (const char* name : {"meta.json", "meta.pkl"}) {
    const std::string path = directory + "/" + name;
    if (!files.exists(path)) continue;
    LOCKSTEP_ASSIGN(const std::string content, files.read(path, kMetaBytesMax));
    Result<Meta> meta = path.ends_with(".pkl") ? parse_meta_pickle(content) : parse_meta_json(content);
    if (!meta.is_ok()) return std::move(meta).status().with_context("cannot use " + path);
    return std::optional<Meta>(std::move(meta).value());
  }
  return std::optional<Meta>();
}

}  // namespace lockstep
