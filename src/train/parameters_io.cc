#include "train/parameters_io.h"

#include <fmt/format.h>

#include <cstring>

#include "base/suggest.h"

namespace lockstep {
namespace {

constexpr std::string_view kCompiledPrefix = "_orig_mod.";
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kTable = "transformer.wte.weight";

std::string_view plain_name(std::string_view name) {
  return name.starts_with(kCompiledPrefix) ? name.substr(kCompiledPrefix.size()) : name;
}

const TensorEntry* find_entry(const SafetensorsFile& file, std::string_view name) {
  for (const TensorEntry& entry : file.entries())
    if (plain_name(entry.name) == name) return &entry;
  return nullptr;
}

Status check_entry_known(const SafetensorsFile& file, const TensorEntry& entry, const std::string& path,
                         const ParameterRegistry& registry) {
  const std::string_view name = plain_name(entry.name);
  if (registry.find(name) != nullptr) return Status::ok();
  if (name == kHead) {
    const TensorEntry* table = find_entry(file, kTable);
    if (table != nullptr && table->shape == entry.shape && table->type == entry.type &&
        std::memcmp(table->bytes.data(), entry.bytes.data(), entry.bytes.size()) == 0)
      return Status::ok();
    return Status(
               Code::kData,
               fmt::format(
                   "cannot use {}: lm_head.weight differs from transformer.wte.weight, and the head is tied",
                   path))
        .with_hint("leave lm_head.weight out, or train the source model with tied weights");
  }
  std::vector<std::string> names;
  for (const ParameterSpec& spec : registry.specs()) names.push_back(spec.name);
  const std::string nearest = nearest_name(name, names);
  Status status(Code::kData, fmt::format("cannot use {}: this model has no tensor {}", path, entry.name));
  return nearest.empty() ? std::move(status).with_hint("compare n_layer and bias with the file's tensors")
                         : std::move(status).with_hint("the nearest name is " + nearest);
}

}  // namespace

std::vector<NamedTensor> named_tensors(const ParameterRegistry& registry, float* flat,
                                       const std::string& prefix) {
  std::vector<NamedTensor> tensors;
  for (const ParameterSpec& spec : registry.specs())
    tensors.push_back({.name = prefix + spec.name, .shape = spec.shape, .data = flat + spec.offset});
  return tensors;
}

Status read_parameters(const SafetensorsFile& file, const std::string& path,
                       const ParameterRegistry& registry, float* params) {
  for (const TensorEntry& entry : file.entries())
    LOCKSTEP_TRY(check_entry_known(file, entry, path, registry));
  for (const ParameterSpec& spec : registry.specs()) {
    const TensorEntry* entry = find_entry(file, spec.name);
    if (entry == nullptr)
      return Status(Code::kData, fmt::format("cannot use {}: tensor {} {} is missing", path, spec.name,
                                             format_shape(spec.shape)))
          .with_hint("the configuration and the weights must be of the same model (n_layer, bias)");
    if (entry->type != ElementType::kF32)
      return Status(Code::kData, fmt::format("cannot use {}: {} is not F32", path, spec.name))
          .with_hint("store the weights as float32");
    if (entry->shape != spec.shape)
      return Status(Code::kData,
                    fmt::format("cannot use {}: {} has shape {}, the configuration says {}", path, spec.name,
                                format_shape(entry->shape), format_shape(spec.shape)));
  }
  for (const ParameterSpec& spec : registry.specs())
    std::memcpy(params + spec.offset, find_entry(file, spec.name)->bytes.data(),
                static_cast<size_t>(spec.count) * sizeof(float));
  return Status::ok();
}

}  // namespace lockstep
