// Any bytes as a nanoGPT configuration: settings, or refused with kUsage; settings that are options either
// fit their bounds or are refused.
#include "base/check.h"
#include "train/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(data)), size);
  const auto settings = parse_nanogpt_settings(text, "c.py");
  if (!settings.is_ok()) {
    LOCKSTEP_CHECK(settings.status().code() == Code::kUsage);
    return 0;
  }
  Recipe recipe;
  for (const Setting& setting : *settings) {
    const RecipeOption* option = find_recipe_option(setting.name);
    if (option == nullptr) continue;
    const Status status = set_option(recipe, *option, setting.value, setting.where);
    LOCKSTEP_CHECK(status.is_ok() || status.code() == Code::kUsage) << status.message();
  }
  return 0;
}
