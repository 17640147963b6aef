// Any bytes as a TOML recipe: settings, or refused with kUsage.
#include "base/check.h"
#include "train/setting.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(data)), size);
  const auto settings = parse_toml_settings(text, "r.toml");
  LOCKSTEP_CHECK(settings.is_ok() || settings.status().code() == Code::kUsage);
  return 0;
}
