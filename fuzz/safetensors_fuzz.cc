// Any bytes as a safetensors file: kData, or tensors that lie in the bytes, end to end, with shapes that fit,
// and that written again are read back the same.
#include <algorithm>

#include "base/check.h"
#include "base/testing/fault_file_system.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const Result<SafetensorsFile> parsed = SafetensorsFile::parse(bytes, "fuzz");
  if (!parsed.is_ok()) {
    LOCKSTEP_CHECK(parsed.status().code() == Code::kData);
    LOCKSTEP_CHECK(!parsed.status().message().empty() && !parsed.status().hint().empty());
    return 0;
  }
  const std::byte* end = nullptr;
  for (const TensorEntry& entry : parsed->entries()) {
    size_t count = 1;
    for (const int64_t dimension : entry.shape) count *= static_cast<size_t>(dimension);
    LOCKSTEP_CHECK_EQ(count * element_bytes(entry.type), entry.bytes.size());
    LOCKSTEP_CHECK(end == nullptr || end == entry.bytes.data());
    end = entry.bytes.data() + entry.bytes.size();
    LOCKSTEP_CHECK(entry.bytes.data() >= bytes.data() && end <= bytes.data() + bytes.size());
    LOCKSTEP_CHECK(parsed->find(entry.name) == &entry);
  }
  LOCKSTEP_CHECK(end == nullptr || end == bytes.data() + bytes.size());

  testing::FaultFileSystem files;
  LOCKSTEP_CHECK(write_safetensors(files, "again", parsed->entries()).is_ok());
  const Result<SafetensorsFile> again = SafetensorsFile::open(files, "again");
  LOCKSTEP_CHECK(again.is_ok()) << again.status().message();
  LOCKSTEP_CHECK_EQ(again->entries().size(), parsed->entries().size());
  for (const TensorEntry& entry : parsed->entries()) {
    const TensorEntry* same = again->find(entry.name);
    LOCKSTEP_CHECK(same != nullptr && same->type == entry.type && same->shape == entry.shape);
    LOCKSTEP_CHECK(
        std::equal(same->bytes.begin(), same->bytes.end(), entry.bytes.begin(), entry.bytes.end()));
  }
  return 0;
}
