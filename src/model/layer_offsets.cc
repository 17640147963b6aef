#include "model/layer_offsets.h"

#include <fmt/format.h>

#include "base/check.h"

namespace lockstep {

LayerOffsets::LayerOffsets(const ParameterRegistry& registry, const GptConfig& config) {
  const auto offset = [&](const std::string& name) -> int64_t {
    const ParameterSpec* spec = registry.find(name);
    LOCKSTEP_CHECK(spec != nullptr || (!config.bias && name.ends_with(".bias"))) << name;
    return spec == nullptr ? -1 : spec->offset;
  };
  wte = offset("transformer.wte.weight");
  wpe = offset("transformer.wpe.weight");
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    const std::string h = fmt::format("transformer.h.{}.", layer);
    layers.push_back({.ln1_w = offset(h + "ln_1.weight"),
                      .ln1_b = offset(h + "ln_1.bias"),
                      .qkv_w = offset(h + "attn.c_attn.weight"),
                      .qkv_b = offset(h + "attn.c_attn.bias"),
                      .proj_w = offset(h + "attn.c_proj.weight"),
                      .proj_b = offset(h + "attn.c_proj.bias"),
                      .ln2_w = offset(h + "ln_2.weight"),
                      .ln2_b = offset(h + "ln_2.bias"),
                      .fc_w = offset(h + "mlp.c_fc.weight"),
                      .fc_b = offset(h + "mlp.c_fc.bias"),
                      .mlp_w = offset(h + "mlp.c_proj.weight"),
                      .mlp_b = offset(h + "mlp.c_proj.bias")});
  }
  lnf_w = offset("transformer.ln_f.weight");
  lnf_b = offset("transformer.ln_f.bias");
}

}  // namespace lockstep
