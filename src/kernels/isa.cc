#include "kernels/isa.h"

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/isa.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {
// What dispatch really reaches, not what it was asked for.
int64_t compiled_target() {
  return HWY_TARGET;
}
}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(compiled_target);
namespace {

// Taken before any forcing: forcing changes what Highway reports as supported.
int64_t cpu_targets() {
  static const int64_t targets = hwy::SupportedTargets();
  return targets;
}

// Best first: Highway numbers better targets lower.
std::vector<std::string> names_of(int64_t targets) {
  std::vector<std::string> names;
  auto rest = static_cast<uint64_t>(targets);
  while (rest != 0) {
    const uint64_t lowest = rest & (~rest + 1);
    names.emplace_back(hwy::TargetName(static_cast<int64_t>(lowest)));
    rest ^= lowest;
  }
  return names;
}

}  // namespace

std::vector<std::string> available_isas() {
  return names_of(cpu_targets() & HWY_TARGETS);
}

std::vector<std::string> unavailable_isas() {
  return names_of(~cpu_targets() & HWY_TARGETS);
}

std::string current_isa() {
  cpu_targets();
  return hwy::TargetName(HWY_DYNAMIC_DISPATCH(compiled_target)());
}

bool force_isa(const std::string& name) {
  const auto available = static_cast<uint64_t>(cpu_targets() & HWY_TARGETS);
  int64_t chosen = 0;
  if (!name.empty()) {
    for (uint64_t rest = available; rest != 0 && chosen == 0; rest &= rest - 1) {
      const auto lowest = static_cast<int64_t>(rest & (~rest + 1));
      if (name == hwy::TargetName(lowest)) chosen = lowest;
    }
    if (chosen == 0) return false;
  }
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

}  // namespace lockstep::kernels
#endif
