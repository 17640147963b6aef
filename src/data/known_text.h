// Public texts that the project does not carry but knows by hash: found in folders, else downloaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"
#include "data/dataset.h"

namespace lockstep {

struct KnownText {
  std::string spec;                ///< what --data calls it
  std::vector<std::string> names;  ///< file names it usually has; the first is what the cache uses
  uint64_t bytes = 0;
  std::string sha256;
  std::string url;
};

/// karpathy/char-rnn's tinyshakespeare.
const KnownText& tinyshakespeare();

/// Bytes and what keeps them alive.
struct TextBytes {
  std::shared_ptr<void> storage;
  std::string_view text;
};

/// Looks in options.search_path, $LOCKSTEP_DATA and the cache for a file of exactly that size and hash,
/// whatever its name, the usual names first. Else downloads it into the cache (if that can be written).
/// kData telling where it looked and where to put the file.
Result<TextBytes> find_known_text(FileSystem& files, const KnownText& known, const DataOptions& options);

}  // namespace lockstep
