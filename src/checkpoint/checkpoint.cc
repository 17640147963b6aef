#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "lockstep-checkpoint";
constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kStateFile = "state.json";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr uint64_t kStateBytesMax = uint64_t{64} << 20;
constexpr int kStateDepthMax = 64;  // whoever prints or copies the state recurses
constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr std::string_view kDamagedHint =
    "resume from an older checkpoint, or copy this one again from where it is whole";

// state.json ends with its own hash, so that a flipped bit anywhere in it is seen: the last bytes are exactly
// kSealBegin, 32 hex digits, kSealEnd, and the digits are the XXH3-128 of all bytes before kSealBegin.
constexpr std::string_view kSealBegin = ",\n\"xxh3_128\":\"";
constexpr size_t kSealDigits = 32;
constexpr std::string_view kSealEnd = "\"}\n";

std::string join_path(std::string_view directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

std::string checkpoints_directory(const std::string& out_dir) {
  return join_path(out_dir, "checkpoints");
}

/// The step that a directory's name means: decimal digits without leading zeros.
std::optional<int64_t> step_of_name(std::string_view name) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || std::to_string(step) != name || step < 0)
    return std::nullopt;
  return step;
}

/// state.json, parsed and checked.
struct Manifest {
  CheckpointManifest manifest;
  Json state;
};

std::string serialize_manifest(const CheckpointManifest& manifest, const Json& state) {
  Json entries = Json::object();
  for (const CheckpointFile& file : manifest.files)
    entries[file.name] = Json{{"bytes", file.bytes}, {"xxh3_128", file.xxh3_128}};
  std::string text =
      fmt::format("{{\"format\":\"{}\",\n\"version\":{},\n\"step\":{},\n\"files\":{},\n\"state\":{}", kFormat,
                  kCheckpointVersion, manifest.step, entries.dump(),
                  state.dump(1, ' ', false, Json::error_handler_t::replace));
  const std::string hash = xxh3_hex(text);
  return text.append(kSealBegin).append(hash).append(kSealEnd);
}

Status check_seal(std::string_view text) {
  const size_t seal_bytes = kSealBegin.size() + kSealDigits + kSealEnd.size();
  if (text.size() < seal_bytes || !text.ends_with(kSealEnd) ||
      text.substr(text.size() - seal_bytes, kSealBegin.size()) != kSealBegin)
    return Status(Code::kData, "it does not end with its hash: damaged or incomplete");
  const std::string_view expected = text.substr(text.size() - seal_bytes + kSealBegin.size(), kSealDigits);
  const std::string actual = xxh3_hex(text.substr(0, text.size() - seal_bytes));
  if (expected != actual)
    return Status(Code::kData,
                  fmt::format("damaged or edited: its XXH3-128 is {}, it says {}", actual, expected));
  return Status::ok();
}

/// The typed member of an object, or nothing.
template <typename T>
std::optional<T> member(const Json& object, const std::string& name) {
  const auto it = object.find(name);
  if (it == object.end()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string>) {
    if (it->is_string()) return it->template get<std::string>();
  } else {
    // A number that does not fit is as bad as none.
    if (it->is_number_unsigned() && it->template get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX))
      return it->template get<T>();
  }
  return std::nullopt;
}

Result<Manifest> parse_manifest(std::string_view text) {
  LOCKSTEP_TRY(check_seal(text));
  bool too_deep = false;
  Json document = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        too_deep |= depth > kStateDepthMax;
        return !too_deep;
      },
      false);
  if (too_deep || document.is_discarded() || !document.is_object() ||
      member<std::string>(document, "format") != kFormat)
    return Status(Code::kData, "not the state of a lockstep checkpoint");
  const auto version = member<int64_t>(document, "version");
  if (version && *version > kCheckpointVersion)
    return Status(Code::kData, fmt::format("its format is version {}, this build reads up to {}", *version,
                                           kCheckpointVersion))
        .with_hint("use the lockstep that wrote it, or a newer one");
  const auto step = member<int64_t>(document, "step");
  if (version != kCheckpointVersion || !step || !document.contains("state") || !document.contains("files") ||
      !document["files"].is_object())
    return Status(Code::kData, "version, step, files or state is missing or of the wrong type");
  Manifest parsed{.manifest = {.step = *step, .files = {}}, .state = std::move(document["state"])};
  for (const std::string_view name : {kModelFile, kOptimizerFile}) {
    const Json& all = document["files"];
    const auto it = all.find(name);
    if (it == all.end() || !it->is_object())
      return Status(Code::kData, fmt::format("no entry for {} under files", name));
    const auto bytes = member<uint64_t>(*it, "bytes");
    const auto hash = member<std::string>(*it, "xxh3_128");
    if (!bytes || !hash) return Status(Code::kData, fmt::format("the entry for {} is incomplete", name));
    parsed.manifest.files.push_back({std::string(name), *bytes, *hash});
  }
  return parsed;
}

Result<Manifest> read_manifest(FileSystem& files, const std::string& path) {
  const std::string state_path = join_path(path, kStateFile);
  LOCKSTEP_ASSIGN(const std::string text, files.read(state_path, kStateBytesMax));
  auto parsed = parse_manifest(text);
  if (!parsed.is_ok())
    return std::move(parsed)
        .status()
        .with_context("cannot use " + state_path)
        .with_hint(std::string(kDamagedHint));
  return parsed;
}

/// Maps one file of a checkpoint and compares size and hash. Keeps only a piece of it resident.
Result<std::shared_ptr<MappedFile>> map_verified(FileSystem& files, const std::string& path,
                                                 const CheckpointFile& expected) {
  const std::string file_path = join_path(path, expected.name);
  LOCKSTEP_ASSIGN(std::shared_ptr<MappedFile> mapping, files.map(file_path));
  const auto bytes = mapping->bytes();
  const auto damaged = [&](const std::string& cause) {
    return Status(Code::kData, fmt::format("cannot use {}: {}", file_path, cause))
        .with_hint(std::string(kDamagedHint));
  };
  if (bytes.size() != expected.bytes)
    return damaged(fmt::format("it has {} bytes, {} says {}", bytes.size(), kStateFile, expected.bytes));
  Xxh3 hash;
  for (size_t begin = 0; begin < bytes.size(); begin += kPieceBytes) {
    const size_t count = std::min(kPieceBytes, bytes.size() - begin);
    hash.update(bytes.subspan(begin, count));
    mapping->release(begin, begin + count);
  }
  if (hash.hex() != expected.xxh3_128)
    return damaged(fmt::format("its XXH3-128 is {}, {} says {}", hash.hex(), kStateFile, expected.xxh3_128));
  return mapping;
}

/// Ok when the file holds exactly these tensors, as F32 with these shapes.
Status match_tensors(const SafetensorsFile& file, const std::vector<NamedTensor>& tensors,
                     const std::string& file_path) {
  const auto mismatch = [&](const std::string& cause) {
    return Status(Code::kData, fmt::format("cannot load {}: {}", file_path, cause))
        .with_hint("the checkpoint belongs to another model: use the configuration that it was trained with");
  };
  for (const NamedTensor& tensor : tensors) {
    const TensorEntry* entry = file.find(tensor.name);
    if (entry == nullptr)
      return mismatch(fmt::format("it has no tensor {} {}", tensor.name, format_shape(tensor.shape)));
    if (entry->shape != tensor.shape)
      return mismatch(fmt::format("tensor {} has shape {}, the model needs {}", tensor.name,
                                  format_shape(entry->shape), format_shape(tensor.shape)));
    if (entry->type != ElementType::kF32)
      return mismatch(
          fmt::format("tensor {} is {}, the model needs F32", tensor.name, element_type_name(entry->type)));
  }
  if (file.entries().size() == tensors.size()) return Status::ok();
  for (const TensorEntry& entry : file.entries()) {
    const bool known = std::any_of(tensors.begin(), tensors.end(),
                                   [&](const NamedTensor& tensor) { return tensor.name == entry.name; });
    if (!known)
      return mismatch(
          fmt::format("its tensor {} {} is not one of the model's", entry.name, format_shape(entry.shape)));
  }
  return mismatch("a tensor was asked for twice");
}

Result<SafetensorsFile> open_matching(FileSystem& files, const std::string& path,
                                      const CheckpointFile& expected,
                                      const std::vector<NamedTensor>& tensors) {
  LOCKSTEP_ASSIGN(std::shared_ptr<MappedFile> mapping, map_verified(files, path, expected));
  const std::string file_path = join_path(path, expected.name);
  LOCKSTEP_ASSIGN(SafetensorsFile file, SafetensorsFile::from_mapping(std::move(mapping), file_path));
  LOCKSTEP_TRY(match_tensors(file, tensors, file_path));
  return file;
}

void copy_tensors(const SafetensorsFile& file, const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& tensor : tensors) {
    const auto bytes = file.find(tensor.name)->bytes;
    auto* target = reinterpret_cast<std::byte*>(tensor.data);
    for (size_t begin = 0; begin < bytes.size(); begin += kPieceBytes) {
      const auto piece = bytes.subspan(begin, std::min(kPieceBytes, bytes.size() - begin));
      std::memcpy(target + begin, piece.data(), piece.size());
      file.release(piece);
    }
  }
}

/// Writes and syncs the three files into a directory that exists.
Status write_files(FileSystem& files, const std::string& directory, const CheckpointContent& content,
                   const Json& state) {
  CheckpointManifest manifest{.step = content.step, .files = {}};
  for (const auto& [name, tensors] :
       {std::pair(kModelFile, &content.model), std::pair(kOptimizerFile, &content.optimizer)}) {
    LOCKSTEP_ASSIGN(const WrittenFile written,
                    write_safetensors(files, join_path(directory, name), entries_of(*tensors)));
    manifest.files.push_back({std::string(name), written.bytes, written.xxh3_128});
  }
  LOCKSTEP_ASSIGN(std::unique_ptr<WritableFile> file, files.create(join_path(directory, kStateFile)));
  LOCKSTEP_TRY(file->append(serialize_manifest(manifest, state)));
  LOCKSTEP_TRY(file->sync());
  LOCKSTEP_TRY(file->close());
  return files.sync_directory(directory);
}

void warn_if_failed(const Status& status) {
  if (!status.is_ok()) log_line(LogLevel::kWarning, status.message());
}

/// Removes what interrupted saves and removals left. They are never read, so a failure only costs space.
void remove_leftovers(FileSystem& files, const std::string& directory) {
  const auto names = files.list(directory);
  if (!names.is_ok()) return warn_if_failed(names.status());
  for (const std::string& name : *names)
    if (name.ends_with(kTemporarySuffix)) warn_if_failed(files.remove_all(join_path(directory, name)));
}

/// Makes room for a new name: a directory is first renamed, so that a crash in the middle of the removal
/// leaves no half checkpoint under a checkpoint's name.
Status remove_checkpoint(FileSystem& files, const std::string& path) {
  const std::string doomed = path + ".old" + std::string(kTemporarySuffix);
  LOCKSTEP_TRY(files.rename(path, doomed));
  return files.remove_all(doomed);
}

/// Cheap test for retention: state.json is sound and the files have the sizes that it names.
bool looks_complete(FileSystem& files, const std::string& path) {
  const auto manifest = read_manifest(files, path);
  if (!manifest.is_ok()) return false;
  return std::all_of(manifest->manifest.files.begin(), manifest->manifest.files.end(),
                     [&](const CheckpointFile& file) {
                       const auto bytes = files.file_bytes(join_path(path, file.name));
                       return bytes.is_ok() && *bytes == file.bytes;
                     });
}

/// Keeps the one just saved and the keep - 1 newest complete ones before it; removes what is older.
void remove_old(FileSystem& files, const std::string& out_dir, int64_t step, int keep) {
  const auto all = list_checkpoints(files, out_dir);
  if (!all.is_ok()) return warn_if_failed(all.status());
  int kept = 1;
  for (const CheckpointInfo& info : *all) {
    if (info.step >= step) continue;
    if (kept >= keep)
      warn_if_failed(remove_checkpoint(files, info.path));
    else if (looks_complete(files, info.path))
      ++kept;
  }
}

/// From "written and synced beside" to "there under its name, whatever happens".
Status publish(FileSystem& files, const std::string& directory, const std::string& temporary,
               const std::string& path) {
  // What lies there did not verify. It goes aside first: a directory cannot be renamed onto a full one.
  std::optional<std::string> aside;
  if (files.exists(path)) {
    aside = path + ".invalid" + std::string(kTemporarySuffix);
    LOCKSTEP_TRY(files.rename(path, *aside));
  }
  if (Status renamed = files.rename(temporary, path); !renamed.is_ok()) {
    if (aside) static_cast<void>(files.rename(*aside, path));
    return renamed;
  }
  LOCKSTEP_TRY(files.sync_directory(directory));
  if (aside) warn_if_failed(files.remove_all(*aside));
  return Status::ok();
}

}  // namespace

std::vector<TensorEntry> entries_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorEntry> entries;
  entries.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) {
    size_t count = 1;
    for (const int64_t size : tensor.shape) count *= static_cast<size_t>(size);
    entries.push_back({.name = tensor.name,
                       .type = ElementType::kF32,
                       .shape = tensor.shape,
                       .bytes = std::as_bytes(std::span<const float>(tensor.data, count))});
  }
  return entries;
}

Status save_checkpoint(FileSystem& files, const std::string& out_dir, const CheckpointContent& content,
                       const nlohmann::json& state, int keep) {
  LOCKSTEP_CHECK_GE(keep, 1);
  LOCKSTEP_CHECK_GE(content.step, 0);
  const std::string directory = checkpoints_directory(out_dir);
  const std::string path = join_path(directory, std::to_string(content.step));
  const std::string temporary = path + std::string(kTemporarySuffix);
  const auto save = [&]() -> Status {
    LOCKSTEP_TRY(create_directories_durably(files, directory));
    // Again in case that an earlier attempt made the directory and failed before this.
    LOCKSTEP_TRY(files.sync_directory(out_dir));
    remove_leftovers(files, directory);
    if (files.exists(path) && verify_checkpoint(files, path).is_ok()) return files.sync_directory(directory);
    LOCKSTEP_TRY(files.remove_all(temporary));
    LOCKSTEP_TRY(files.create_directories(temporary));
    Status written = write_files(files, temporary, content, state);
    if (written.is_ok()) written = publish(files, directory, temporary, path);
    // A full disk should not stay full because of a checkpoint that is none.
    if (!written.is_ok()) static_cast<void>(files.remove_all(temporary));
    return written;
  };
  if (Status saved = save(); !saved.is_ok())
    return std::move(saved).with_context(fmt::format("cannot save the checkpoint of step {}", content.step));
  remove_old(files, out_dir, content.step, keep);
  return Status::ok();
}

Result<std::vector<CheckpointInfo>> list_checkpoints(FileSystem& files, const std::string& out_dir) {
  const std::string directory = checkpoints_directory(out_dir);
  std::vector<CheckpointInfo> found;
  if (!files.exists(directory)) return found;
  LOCKSTEP_ASSIGN(const std::vector<std::string> names, files.list(directory));
  for (const std::string& name : names) {
    const auto step = step_of_name(name);
    std::string path = join_path(directory, name);
    if (step && files.exists(join_path(path, kStateFile))) found.push_back({std::move(path), *step});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointInfo& a, const CheckpointInfo& b) { return a.step > b.step; });
  return found;
}

Result<CheckpointInfo> find_latest_valid_checkpoint(FileSystem& files, const std::string& out_dir,
                                                    const WarningSink& warn) {
  LOCKSTEP_ASSIGN(const std::vector<CheckpointInfo> all, list_checkpoints(files, out_dir));
  for (const CheckpointInfo& info : all) {
    const Status status = verify_checkpoint(files, info.path);
    if (status.is_ok()) return info;
    const std::string line = fmt::format("skipping checkpoint {}: {}", info.path, status.message());
    if (warn)
      warn(line);
    else
      log_line(LogLevel::kWarning, line);
  }
  if (all.empty())
    return Status(Code::kData, fmt::format("no checkpoint in {}", checkpoints_directory(out_dir)))
        .with_hint("start without --resume, or give the --out-dir of an earlier run");
  return Status(Code::kData, fmt::format("none of the {} checkpoints in {} is whole", all.size(),
                                         checkpoints_directory(out_dir)))
      .with_hint("copy one again from where it is whole, or start anew in another --out-dir");
}

Result<nlohmann::json> read_checkpoint_state(FileSystem& files, const std::string& path) {
  LOCKSTEP_ASSIGN(Manifest manifest, read_manifest(files, path));
  return std::move(manifest.state);
}

Result<CheckpointManifest> read_checkpoint_manifest(FileSystem& files, const std::string& path) {
  LOCKSTEP_ASSIGN(Manifest manifest, read_manifest(files, path));
  return std::move(manifest.manifest);
}

Status verify_checkpoint(FileSystem& files, const std::string& path) {
  LOCKSTEP_ASSIGN(const Manifest manifest, read_manifest(files, path));
  for (const CheckpointFile& file : manifest.manifest.files)
    LOCKSTEP_TRY(map_verified(files, path, file).status());
  return Status::ok();
}

Status load_checkpoint(FileSystem& files, const std::string& path, CheckpointContent& content) {
  LOCKSTEP_ASSIGN(const Manifest manifest, read_manifest(files, path));
  const std::vector<CheckpointFile>& expected = manifest.manifest.files;
  LOCKSTEP_ASSIGN(const SafetensorsFile model, open_matching(files, path, expected[0], content.model));
  LOCKSTEP_ASSIGN(const SafetensorsFile optimizer,
                  open_matching(files, path, expected[1], content.optimizer));
  copy_tensors(model, content.model);
  copy_tensors(optimizer, content.optimizer);
  content.step = manifest.manifest.step;
  return Status::ok();
}

Status load_model(FileSystem& files, const std::string& path, std::vector<NamedTensor>& model) {
  LOCKSTEP_ASSIGN(const Manifest manifest, read_manifest(files, path));
  LOCKSTEP_ASSIGN(const SafetensorsFile file, open_matching(files, path, manifest.manifest.files[0], model));
  copy_tensors(file, model);
  return Status::ok();
}

}  // namespace lockstep
