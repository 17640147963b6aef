#include "data/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/suggest.h"
#include "data/builtin_text.h"
#include "data/known_text.h"
#include "data/meta.h"
#include "data/token_file.h"

namespace lockstep {
namespace {

constexpr std::string_view kBuiltin = "builtin";

// nanoGPT's int(0.9 * n), in the same floating point.
int64_t train_part(int64_t characters) {
  return static_cast<int64_t>(0.9 * static_cast<double>(characters));
}

int64_t smaller_part(int64_t characters) {
  return std::min(train_part(characters), characters - train_part(characters));
}

Status too_short_text(int64_t characters, int64_t block_size) {
  int64_t enough = std::max<int64_t>(2, 10 * block_size - 10);
  while (smaller_part(enough) < block_size + 1) ++enough;
  const int64_t block_size_max = smaller_part(characters) - 1;
  Status status(
      Code::kData,
      fmt::format("the text is too short: {} characters make {} for training and {} for validation, "
                  "and block size {} needs at least {} in each",
                  characters, train_part(characters), characters - train_part(characters), block_size,
                  block_size + 1));
  std::string hint = fmt::format("give a text of at least {} characters", enough);
  if (block_size_max >= 1) hint += fmt::format(", or --block-size {} or less", block_size_max);
  return std::move(status).with_hint(std::move(hint));
}

void summarize(Dataset& data) {
  TokenSummary train = summarize_tokens(data.train), val = summarize_tokens(data.val);
  data.max_id = std::max(train.max_id, val.max_id);
  data.content_hash = sha256_hex(train.sha256 + ":" + val.sha256);
  data.train_sha256 = std::move(train.sha256);
  data.val_sha256 = std::move(val.sha256);
}

Result<Dataset> split_text(std::string_view text, int64_t block_size) {
  LOCKSTEP_ASSIGN(CharTokenizer tokenizer, CharTokenizer::from_text(text));
  LOCKSTEP_ASSIGN(std::vector<uint16_t> encoded, tokenizer.encode(text));
  const auto characters = static_cast<int64_t>(encoded.size());
  if (smaller_part(characters) < block_size + 1) return too_short_text(characters, block_size);
  auto ids = std::make_shared<std::vector<uint16_t>>(std::move(encoded));
  const auto train = static_cast<size_t>(train_part(characters));
  Dataset data;
  data.train = std::span(*ids).first(train);
  data.val = std::span(*ids).subspan(train);
  data.vocab_size = tokenizer.vocab_size();
  data.tokenizer.emplace(std::move(tokenizer));
  data.storage.push_back(std::move(ids));
  summarize(data);
  return data;
}

Result<Dataset> from_text(std::string_view text, const std::string& name, int64_t block_size) {
  Result<Dataset> data = split_text(text, block_size);
  if (!data.is_ok()) return std::move(data).status().with_context("cannot train on " + name);
  return data;
}

Result<Dataset> from_text_file(FileSystem& files, const std::string& path, int64_t block_size) {
  LOCKSTEP_ASSIGN(const std::unique_ptr<MappedFile> mapped, files.map(path));
  const auto content = mapped->bytes();
  if (content.empty())
    return Status(Code::kData, fmt::format("cannot train on {}: the file is empty", path))
        .with_hint("give a text file with something in it");
  if (path.ends_with(".bin"))
    return Status(Code::kData, fmt::format("cannot train on {}: a .bin file is one split of tokens", path))
        .with_hint("give the folder that holds train.bin and val.bin");
  return from_text({static_cast<const char*>(static_cast<const void*>(content.data())), content.size()}, path,
                   block_size);
}

Result<TokenFile> open_split(FileSystem& files, const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  if (files.exists(path)) return open_token_file(files, path);
  LOCKSTEP_ASSIGN(std::vector<std::string> names, files.list(directory));
  const size_t count = names.size();
  names.resize(std::min<size_t>(count, 8));
  return Status(Code::kData, fmt::format("cannot train on the folder {}: there is no {} in it; it holds {}{}",
                                         directory, name, names.empty() ? "nothing" : "",
                                         fmt::join(names, ", "), count > names.size() ? ", …" : ""))
      .with_hint("a data folder has train.bin and val.bin; `lockstep data prepare` makes one from a text");
}

Status check_split(const std::string& path, std::span<const uint16_t> ids, const std::string& sha256,
                   int64_t told_tokens, const std::string& told_sha256) {
  const bool count_differs = told_tokens != 0 && told_tokens != static_cast<int64_t>(ids.size());
  if (!count_differs && (told_sha256.empty() || told_sha256 == sha256)) return Status::ok();
  return Status(Code::kData,
                fmt::format("{} is not the file that meta.json beside it was written for: {} tokens with "
                            "SHA-256 {}, not {} with {}",
                            path, ids.size(), sha256, told_tokens, told_sha256))
      .with_hint("run `lockstep data prepare` again, or remove meta.json if it belongs to other data");
}

Status check_against_meta(const std::string& directory, const Dataset& data, const Meta& meta) {
  LOCKSTEP_TRY(check_split(directory + "/train.bin", data.train, data.train_sha256, meta.train_tokens,
                           meta.train_sha256));
  LOCKSTEP_TRY(
      check_split(directory + "/val.bin", data.val, data.val_sha256, meta.val_tokens, meta.val_sha256));
  if (data.max_id < meta.vocab_size) return Status::ok();
  return Status(Code::kData,
                fmt::format("the tokens in {} reach id {}, but its meta file says that vocab_size "
                            "is {}",
                            directory, data.max_id, meta.vocab_size))
      .with_hint("the meta file belongs to other data; prepare the folder again");
}

Result<Dataset> from_token_directory(FileSystem& files, const std::string& directory, int64_t block_size) {
  LOCKSTEP_ASSIGN(std::optional<Meta> meta, read_meta(files, directory));
  Dataset data;
  for (const char* name : {"train.bin", "val.bin"}) {
    LOCKSTEP_ASSIGN(TokenFile file, open_split(files, directory, name));
    const auto tokens = static_cast<int64_t>(file.ids.size());
    if (tokens < block_size + 1) {
      Status status(
          Code::kData,
          fmt::format("cannot train on {}/{}: {} tokens are too few, block size {} needs at least {}",
                      directory, name, tokens, block_size, block_size + 1));
      return std::move(status).with_hint(
          tokens >= 2 ? fmt::format("give --block-size {} or less, or more data", tokens - 1)
                      : "give more data");
    }
    (data.storage.empty() ? data.train : data.val) = file.ids;
    data.storage.push_back(std::move(file.mapping));
  }
  summarize(data);
  if (meta) {
    LOCKSTEP_TRY(check_against_meta(directory, data, *meta));
    data.vocab_size = meta->vocab_size;
    data.tokenizer = std::move(meta->tokenizer);
  }
  return data;
}

// A word that is neither known nor a path: offer what it may have meant.
Status unknown_spec(FileSystem& files, const std::string& spec) {
  const size_t slash = spec.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "" : spec.substr(0, slash + 1);
  std::vector<std::string> candidates;
  if (folder.empty()) candidates = {std::string(kBuiltin), tinyshakespeare().spec};
  if (Result<std::vector<std::string>> names = files.list(folder.empty() ? "." : folder); names.is_ok())
    for (const std::string& name : *names)
      if (folder + name != spec) candidates.push_back(folder + name);  // a link to nothing is listed too
  const std::string nearest = nearest_name(spec, candidates);
  std::string hint = nearest.empty() ? "" : fmt::format("did you mean \"{}\"? ", nearest);
  hint += "--data takes builtin, shakespeare, a text file, or a folder with train.bin and val.bin";
  return Status(Code::kData,
                fmt::format("cannot find the data \"{}\": it is no built-in name, file or folder", spec))
      .with_hint(std::move(hint));
}

}  // namespace

Result<Dataset> open_dataset(FileSystem& files, const DataOptions& options, int64_t block_size) {
  const std::string& spec = options.spec;
  if (block_size < 1)
    return Status(Code::kUsage, fmt::format("block size {} is too small: it must be at least 1", block_size));
  Result<Dataset> data = Dataset();
  if (spec == kBuiltin) {
    data = from_text(builtin_text(), spec, block_size);
  } else if (spec == tinyshakespeare().spec) {
    LOCKSTEP_ASSIGN(const TextBytes found, find_known_text(files, tinyshakespeare(), options));
    data = from_text(found.text, spec, block_size);
  } else if (files.is_directory(spec)) {
    data = from_token_directory(files, spec, block_size);
  } else if (!spec.empty() && files.exists(spec)) {
    data = from_text_file(files, spec, block_size);
  } else {
    return unknown_spec(files, spec);
  }
  if (data.is_ok()) data->name = spec;
  return data;
}

Result<std::vector<PreparedFile>> prepare_dataset(FileSystem& files, const DataOptions& options,
                                                  const std::string& directory) {
  LOCKSTEP_ASSIGN(Dataset data, open_dataset(files, options, 1));
  LOCKSTEP_TRY(files.create_directories(directory));
  std::vector<PreparedFile> prepared = {{directory + "/train.bin", data.train.size(), data.train_sha256},
                                        {directory + "/val.bin", data.val.size(), data.val_sha256}};
  LOCKSTEP_TRY(write_token_file(files, prepared[0].path, TokenFormat::kPlain, data.train));
  LOCKSTEP_TRY(write_token_file(files, prepared[1].path, TokenFormat::kPlain, data.val));
  Meta meta;
  // Without a vocabulary the ids themselves are all that is known of its size.
  meta.vocab_size = data.vocab_size != 0 ? data.vocab_size : int64_t{data.max_id} + 1;
  meta.tokenizer = std::move(data.tokenizer);
  meta.train_tokens = static_cast<int64_t>(data.train.size());
  meta.val_tokens = static_cast<int64_t>(data.val.size());
  meta.train_sha256 = data.train_sha256;
  meta.val_sha256 = data.val_sha256;
  const std::string json = meta_json(meta);
  LOCKSTEP_TRY(write_file_atomically(files, directory + "/meta.json", json));
  prepared.push_back({directory + "/meta.json", 0, sha256_hex(json)});
  return prepared;
}

}  // namespace lockstep
