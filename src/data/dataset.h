// A data set ready for training: token ids of two splits, mapped or in memory, and the tokenizer if there is
// one.
//
//   --data builtin | shakespeare | FILE (UTF-8 text) | DIR (train.bin, val.bin and maybe meta.json or
//   meta.pkl)
//
// The two words come first: a file called builtin is ./builtin. Text is split as nanoGPT does: the first
// int(0.9 * characters) train, the rest val; the vocabulary is the whole text's. Token files are headerless
// little-endian uint16 (nanoGPT) or headed (llm.c, magic 20240520); formats in docs/formats/tokens.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"
#include "data/download.h"
#include "data/tokenizer.h"

namespace lockstep {

struct DataOptions {
  std::string spec = "builtin";
  /// Folders from --data-path, searched for known texts; then $LOCKSTEP_DATA, then the cache.
  std::vector<std::string> search_path;
  bool allow_download = true;
  std::string cache_directory;         ///< empty: ~/.cache/lockstep
  Downloader* downloader = nullptr;    ///< null: https_downloader()
  DownloadProgress download_progress;  ///< may be empty
};

class Dataset {
 public:
  std::string name;          ///< the spec, for people
  std::string content_hash;  ///< SHA-256 over both splits' ids as uint16 LE, "train_hash:val_hash" hashed
  std::string train_sha256, val_sha256;    ///< of the ids as uint16 LE
  std::optional<CharTokenizer> tokenizer;  ///< absent for token files without meta
  int64_t vocab_size = 0;  ///< the tokenizer's or meta's; 0 when unknown (largest id is in max_id)
  uint16_t max_id = 0;
  std::span<const uint16_t> train, val;

  Dataset() = default;
  Dataset(Dataset&&) = default;
  Dataset& operator=(Dataset&&) = default;

  std::vector<std::shared_ptr<void>> storage;  ///< keeps the spans alive
};

/// kData with cause and remedy when the text is missing, empty, broken or too short for one block of
/// block_size + 1 in each split. Reads every id once (hash, largest id).
Result<Dataset> open_dataset(FileSystem& files, const DataOptions& options, int64_t block_size);

/// Writes nanoGPT's train.bin, val.bin and our meta.json to `directory`, each atomically, meta.json last; the
/// text as open_dataset finds it. `directory` may be the data set's own.
struct PreparedFile {
  std::string path;
  uint64_t tokens;
  std::string sha256;
};
Result<std::vector<PreparedFile>> prepare_dataset(FileSystem& files, const DataOptions& options,
                                                  const std::string& directory);

}  // namespace lockstep
