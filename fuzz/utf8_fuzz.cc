// Any bytes as text: a vocabulary that encodes it and gives it back, or kData.
#include "base/check.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(data)), size);
  const Result<int64_t> characters = count_characters(text);
  const Result<CharTokenizer> tokenizer = CharTokenizer::from_text(text);
  LOCKSTEP_CHECK_EQ(tokenizer.is_ok(), characters.is_ok() && size > 0);
  if (!tokenizer.is_ok()) {
    LOCKSTEP_CHECK(tokenizer.status().code() == Code::kData);
    const CharTokenizer letters = CharTokenizer::from_text("abc").value();
    LOCKSTEP_CHECK_EQ(letters.encode(text).is_ok(), size == 0);
    return 0;
  }
  const Result<std::vector<uint16_t>> ids = tokenizer->encode(text);
  LOCKSTEP_CHECK(ids.is_ok()) << ids.status().message();
  LOCKSTEP_CHECK_EQ(static_cast<int64_t>(ids->size()), *characters);
  LOCKSTEP_CHECK(tokenizer->decode(*ids) == text);
  return 0;
}
