// Which instruction set the Highway kernels use, and forcing another one (tests, and proving that replicas
// agree).
#pragma once

#include <string>
#include <vector>

namespace lockstep::kernels {

/// Names ("AVX3", "AVX2", "SSE4", …) compiled in and supported by this CPU, best first.
std::vector<std::string> available_isas();
/// Names compiled in that this CPU cannot run.
std::vector<std::string> unavailable_isas();
/// The one in use.
std::string current_isa();
/// Uses `name` from now on in this process; "" returns to the best. False when this CPU or build lacks it.
/// Not while kernels run. oneDNN is steered by its own variable (ONEDNN_MAX_CPU_ISA) before its first use.
bool force_isa(const std::string& name);

}  // namespace lockstep::kernels
