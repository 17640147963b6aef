// Any bytes as a checkpoint's state.json, once as they are and once with a hash at the end that fits, so that
// more than the hash is tried: kData, or a state that can be printed.
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/hash.h"
#include "base/testing/fault_file_system.h"
#include "checkpoint/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string text(static_cast<const char*>(static_cast<const void*>(data)), size);
  const std::string sealed = text + ",\n\"xxh3_128\":\"" + xxh3_hex(text) + "\"}\n";
  testing::FaultFileSystem files;
  LOCKSTEP_CHECK(files.create_directories("c").is_ok());
  LOCKSTEP_CHECK(files.create("c/state.json").is_ok());
  for (const std::string& content : {text, sealed}) {
    files.overwrite("c/state.json", content);
    const Result<nlohmann::json> state = read_checkpoint_state(files, "c");
    const Result<CheckpointManifest> manifest = read_checkpoint_manifest(files, "c");
    LOCKSTEP_CHECK_EQ(state.is_ok(), manifest.is_ok());
    if (!state.is_ok()) {
      LOCKSTEP_CHECK(state.status().code() == Code::kData);
      continue;
    }
    LOCKSTEP_CHECK_GE(manifest->step, 0);
    LOCKSTEP_CHECK_EQ(manifest->files.size(), 2u);
    LOCKSTEP_CHECK(!state->dump().empty());
  }
  return 0;
}
