// Reads nanoGPT's meta.pkl without Python and without trusting it: an interpreter of the few pickle opcodes
// that CPython emits (protocols 0 to 5) for a dict of str and int that may hold further dicts.
//
// Any other opcode – all that import a name or call something – is refused by name, so a file can only ever
// make integers, strings and dicts. The interpreter neither recurses nor takes memory by a length that the
// file claims: every length is compared with the bytes that are there first, and the number of values with
// kPickleValuesMax. What a dict holds is given by indices into one table, so even a dict that contains
// itself is harmless.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace lockstep {

inline constexpr size_t kPickleValuesMax = 1u << 20;

using PickleIndex = uint32_t;  ///< into Pickle::values
struct PickleDict {
  std::vector<std::pair<PickleIndex, PickleIndex>> items;  ///< in the order they were set; keys may repeat
};
using PickleValue = std::variant<int64_t, std::string, PickleDict>;

struct Pickle {
  std::vector<PickleValue> values;
  PickleIndex root = 0;

  /// The value under a string key of a dict, the last one set; null when absent or `dict` is no dict.
  const PickleValue* find(const PickleValue& dict, std::string_view key) const;
};

/// kData naming the byte offset and the reason. Bytes after STOP are an error.
Result<Pickle> read_pickle(std::string_view bytes);

/// What meta.pkl says. itos is dense: the string of id i at [i].
struct PickledMeta {
  int64_t vocab_size = 0;
  std::vector<std::string> itos;  ///< may be empty (no itos in the file), at most vocab_size long
};

/// kData when there is no vocab_size in 1..65,536, when itos is no table 0..n-1 with n <= vocab_size, or when
/// stoi is not its inverse.
Result<PickledMeta> read_pickled_meta(std::string_view bytes);

}  // namespace lockstep
