// Any bytes as meta.json: read, or refused with kData; what was read and is written comes back the same.
#include "base/check.h"
#include "data/meta.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  Result<Meta> meta = parse_meta_json({static_cast<const char*>(static_cast<const void*>(data)), size});
  if (!meta.is_ok()) {
    LOCKSTEP_CHECK(meta.status().code() == Code::kData);
    return 0;
  }
  LOCKSTEP_CHECK(meta->vocab_size >= 1 && meta->vocab_size <= 65536) << meta->vocab_size;
  if (meta->train_tokens == 0 || meta->val_tokens == 0) return 0;  // not written this way
  const std::string written = meta_json(*meta);
  const Result<Meta> again = parse_meta_json(written);
  LOCKSTEP_CHECK(again.is_ok()) << again.status().message();
  LOCKSTEP_CHECK(meta_json(*again) == written);
  return 0;
}
