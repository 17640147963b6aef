// Where each tensor of a GPT begins in the flat buffers: the registry's offsets by role. Internal to model.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameters.h"

namespace lockstep {

/// Offsets in elements; the biases are -1 in a model without.
struct LayerOffsets {
  struct Layer {
    int64_t ln1_w, ln1_b, qkv_w, qkv_b, proj_w, proj_b, ln2_w, ln2_b, fc_w, fc_b, mlp_w, mlp_b;
  };
  LayerOffsets(const ParameterRegistry& registry, const GptConfig& config);

  int64_t wte, wpe, lnf_w, lnf_b;
  std::vector<Layer> layers;
};

}  // namespace lockstep
