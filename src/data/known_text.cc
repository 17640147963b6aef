#include "data/known_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/hash.h"
#include "base/log.h"

namespace lockstep {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string cache_of(const DataOptions& options) {
  if (!options.cache_directory.empty()) return options.cache_directory;
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/lockstep";
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size()};
}

// One search: the result, and for the error what was seen on the way.
class Search {
 public:
  Search(FileSystem& files, const KnownText& known) : files_(files), known_(known) {}

  std::optional<TextBytes> in_folder(const std::string& folder) {
    if (!files_.is_directory(folder)) {
      seen_.push_back(folder + ": no such folder");
      return std::nullopt;
    }
    Result<std::vector<std::string>> listed = files_.list(folder);
    if (!listed.is_ok()) {
      seen_.push_back(listed.status().message());
      return std::nullopt;
    }
    const size_t before = seen_.size();
    const std::vector<std::string>& names = *listed;
    for (const bool usual : {true, false})
      for (const std::string& name : names) {
        if (is_usual(name) != usual) continue;
        if (std::optional<TextBytes> found = try_file(folder + "/" + name, usual)) return found;
      }
    if (seen_.size() == before)
      seen_.push_back(fmt::format("{}: none of its {} files is it", folder, names.size()));
    return std::nullopt;
  }

  void note(std::string what) { seen_.push_back(std::move(what)); }
  std::string summary() const { return fmt::format("{}", fmt::join(seen_, "; ")); }

 private:
  bool is_usual(const std::string& name) const {
    return std::find(known_.names.begin(), known_.names.end(), name) != known_.names.end();
  }

  // Opens only what has the right size, so never a pipe or a device.
  std::optional<TextBytes> try_file(const std::string& path, bool usual_name) {
    const Result<uint64_t> bytes = files_.file_bytes(path);
    if (!bytes.is_ok() || *bytes != known_.bytes || files_.is_directory(path)) {
      if (usual_name && bytes.is_ok()) seen_.push_back(fmt::format("{}: has {} bytes", path, *bytes));
      return std::nullopt;
    }
    Result<std::unique_ptr<MappedFile>> mapped = files_.map(path);
    if (!mapped.is_ok()) {
      seen_.push_back(mapped.status().message());
      return std::nullopt;
    }
    std::shared_ptr<MappedFile> mapping = std::move(mapped).value();
    if (const std::string hash = sha256_hex(mapping->bytes()); hash != known_.sha256) {
      if (usual_name) seen_.push_back(fmt::format("{}: has SHA-256 {}", path, hash));
      return std::nullopt;
    }
    return TextBytes{mapping, as_text(mapping->bytes())};
  }

  FileSystem& files_;
  const KnownText& known_;
  std::vector<std::string> seen_;
};

// Into the cache under a name of this process first, so that two at once do not meet.
Status store(FileSystem& files, const std::string& cache, const KnownText& known, std::string_view content) {
  LOCKSTEP_TRY(files.create_directories(cache));
  const std::string path = cache + "/" + known.names.front();
  const std::string temporary = fmt::format("{}.{}", path, ::getpid());
  Status status = write_file_atomically(files, temporary, content);
  if (status.is_ok()) status = files.rename(temporary, path);
  if (!status.is_ok()) {
    (void)files.remove_all(temporary);
    (void)files.remove_all(temporary + ".tmp");
  }
  return status;
}

Result<TextBytes> download(FileSystem& files, const KnownText& known, const DataOptions& options,
                           const std::string& cache) {
  Downloader& downloader = options.downloader != nullptr ? *options.downloader : https_downloader();
  log_info("downloading {} ({} bytes)", known.url, known.bytes);
  LOCKSTEP_ASSIGN(std::string content, downloader.fetch(known.url, known.bytes, options.download_progress));
  if (const std::string hash = sha256_hex(content); content.size() != known.bytes || hash != known.sha256)
    return Status(Code::kData, fmt::format("{} gave {} bytes with SHA-256 {}, which is not the text",
                                           known.url, content.size(), hash));
  if (!cache.empty()) {
    // A cache that cannot be written costs the next run a download, not this one its data.
    if (const Status stored = store(files, cache, known, content); !stored.is_ok())
      log_warning("the text is used but not kept: {}", stored.message());
  }
  auto kept = std::make_shared<std::string>(std::move(content));
  return TextBytes{kept, *kept};
}

}  // namespace

const KnownText& tinyshakespeare() {
  static const KnownText known{
      "shakespeare",
      {"tinyshakespeare.txt", "input.txt"},
      1115394,
      "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
      "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"};
  return known;
}

Result<TextBytes> find_known_text(FileSystem& files, const KnownText& known, const DataOptions& options) {
  std::vector<std::string> folders = options.search_path;
  if (const std::string folder = environment("LOCKSTEP_DATA"); !folder.empty()) folders.push_back(folder);
  const std::string cache = cache_of(options);
  if (!cache.empty()) folders.push_back(cache);
  Search search(files, known);
  for (const std::string& folder : folders)
    if (std::optional<TextBytes> found = search.in_folder(folder)) return *std::move(found);
  if (options.allow_download) {
    Result<TextBytes> downloaded = download(files, known, options, cache);
    if (downloaded.is_ok()) return downloaded;
    search.note(downloaded.status().message());
  } else {
    search.note("downloading is switched off");
  }
  return Status(Code::kData, fmt::format("cannot find the text \"{}\" ({} bytes, SHA-256 {}): {}", known.spec,
                                         known.bytes, known.sha256, search.summary()))
      .with_hint(fmt::format("get {} on a machine that can, and put it into {}, or into another folder and "
                             "name that with --data-path",
                             known.url, cache.empty() ? "a folder" : cache + "/" + known.names.front()));
}

}  // namespace lockstep
