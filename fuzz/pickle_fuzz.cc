// Any bytes as meta.pkl: read, or refused with kData; what is read keeps its promises.
#include "base/check.h"
#include "data/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string_view bytes(static_cast<const char*>(static_cast<const void*>(data)), size);
  if (const Result<Pickle> pickle = read_pickle(bytes); pickle.is_ok()) {
    LOCKSTEP_CHECK_LT(pickle->root, pickle->values.size());
    LOCKSTEP_CHECK_LE(pickle->values.size(), kPickleValuesMax);
  } else {
    LOCKSTEP_CHECK(pickle.status().code() == Code::kData);
    LOCKSTEP_CHECK(!read_pickled_meta(bytes).is_ok());
  }
  if (const Result<PickledMeta> meta = read_pickled_meta(bytes); meta.is_ok()) {
    LOCKSTEP_CHECK(meta->vocab_size >= 1 && meta->vocab_size <= 65536) << meta->vocab_size;
    LOCKSTEP_CHECK(static_cast<int64_t>(meta->itos.size()) <= meta->vocab_size) << meta->itos.size();
  }
  return 0;
}
