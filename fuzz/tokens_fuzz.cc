// Any bytes as a token file: read, or refused with kData; the ids that are read lie inside the bytes.
#include <algorithm>
#include <memory>

#include "base/check.h"
#include "data/token_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  // Like a mapping, the copy starts at an even address.
  const auto copy = std::make_unique<std::byte[]>(size);
  std::copy_n(std::as_bytes(std::span(data, size)).begin(), size, copy.get());
  const Result<std::span<const uint16_t>> ids = parse_token_file({copy.get(), size});
  if (!ids.is_ok()) {
    LOCKSTEP_CHECK(ids.status().code() == Code::kData);
    return 0;
  }
  const size_t header = token_format({copy.get(), size}) == TokenFormat::kHeaded ? kTokenHeaderBytes : 0;
  LOCKSTEP_CHECK_EQ(header + 2 * ids->size(), size);
  const TokenSummary summary = summarize_tokens(*ids);
  LOCKSTEP_CHECK(summary.max_id == *std::max_element(ids->begin(), ids->end()));
  return 0;
}
