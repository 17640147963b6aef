// The parameter registry: one ordered list of tensors that drives initialisation, gradients, optimizer,
// checkpoint, hashes and (later) buckets. Parameters, gradients and both moments are each one flat fp32
// buffer with this layout; every tensor starts on a 64-byte border and the padding between tensors is and
// stays zero.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace lockstep {

struct ParameterSpec {
  std::string name;            ///< nanoGPT's state-dict name, e.g. "transformer.h.0.attn.c_attn.weight"
  std::vector<int64_t> shape;  ///< torch's: linears are (out, in)
  int64_t offset = 0;          ///< first element in the flat buffers
  int64_t count = 0;           ///< elements, without padding
  bool decays = false;         ///< weight decay applies (two or more dimensions)
  float init_mean = 0.0f;      ///< 1 for layer-norm weights
  float init_std = 0.0f;       ///< 0: constant init_mean
};

class ParameterRegistry {
 public:
  explicit ParameterRegistry(const GptConfig& config);

  std::span<const ParameterSpec> specs() const { return specs_; }
  const ParameterSpec* find(std::string_view name) const;
  /// Elements of a flat buffer, padding included.
  int64_t flat_count() const { return flat_count_; }
  /// Parameters, padding excluded.
  int64_t parameter_count() const { return parameter_count_; }
  /// As nanoGPT prints it: without wpe.
  int64_t parameter_count_without_positions() const;

  /// Fills params (flat_count floats) for `seed`: tensor i, element e is a function of (seed, i, e) alone.
  void initialise(uint64_t seed, float* params) const;

 private:
  std::vector<ParameterSpec> specs_;
  int64_t flat_count_ = 0;
  int64_t parameter_count_ = 0;
};

}  // namespace lockstep
