// The shape of a GPT-2 / nanoGPT model.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "kernels/gelu.h"

namespace lockstep {

/// Type the matrix products read: parameters, sums and updates are fp32 in both cases.
enum class ComputeType : uint8_t { kFp32, kBf16 };

struct GptConfig {
  int64_t n_layer = 0, n_head = 0, n_embd = 0;
  int64_t block_size = 0;  ///< longest context, rows of wpe
  int64_t vocab_size = 0;
  bool bias = false;  ///< biases in linears and layer norms
  kernels::Gelu gelu = kernels::Gelu::kErf;
  float dropout = 0.0f;

  int64_t head_size() const { return n_embd / n_head; }
  /// kUsage naming the first wrong value: sizes in [1, 2^20], n_embd a multiple of n_head, dropout in [0, 1),
  /// at most 10^12 parameters.
  Status validate() const;

  bool operator==(const GptConfig&) const = default;
};

inline constexpr float kLayerNormEpsilon = 1e-5f;

/// nanoGPT's estimate per token, forward and backward: 6 * (parameters without wpe) + 12 * L * C * T.
double flops_per_token(const GptConfig& config, int64_t time);

}  // namespace lockstep
