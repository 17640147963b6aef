// Parameters by name, between the flat buffers and files.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "model/parameters.h"

namespace lockstep {

/// Every tensor of the registry as a slice of `flat`, its name behind `prefix`.
std::vector<NamedTensor> named_tensors(const ParameterRegistry& registry, float* flat,
                                       const std::string& prefix = "");

/// Fills params from F32 tensors under nanoGPT's state-dict names. A "_orig_mod." prefix (torch.compile) is
/// dropped; a lm_head.weight is accepted when it equals the tied transformer.wte.weight. kData naming the
/// first tensor that is missing, unknown (with the nearest name), of the wrong type or shape.
Status read_parameters(const SafetensorsFile& file, const std::string& path,
                       const ParameterRegistry& registry, float* params);

}  // namespace lockstep
