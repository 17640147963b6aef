// Forward and backward pass of the GPT-2 / nanoGPT family, one micro-batch at a time.
//
// A Gpt owns its activations: one arena, planned at construction and never grown. Parameters and gradients
// belong to the caller (flat buffers, model/parameters.h). Gradients are sums over tokens, not means; the
// optimizer divides once. Kept per layer between forward and backward: residual stream (2), qkv (3),
// attention output (1) and MLP pre-activation (4), in units of (tokens, C); layer-norm outputs and GELU
// values are recomputed. Logits exist for one chunk of rows at a time. Not thread-safe: one call at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/gemm_peak.h"
#include "model/config.h"
#include "model/parameters.h"

namespace lockstep {

/// One micro-batch: x and y are (B, T) token ids, y may hold -1 (ignored).
struct Batch {
  int64_t B = 0, T = 0;
  const int32_t* x = nullptr;
  const int32_t* y = nullptr;
  const uint32_t* slots =
      nullptr;  ///< (B) sample slots within the step, for dropout; may be null when dropout is 0
};

/// What makes dropout masks: the run's seed and the step.
struct DropoutContext {
  uint64_t seed = 0;
  uint32_t step = 0;
};

struct LossSums {
  double loss = 0.0;   ///< sum over counted tokens, nats
  int64_t tokens = 0;  ///< targets that are not -1
};

/// Bytes a Gpt allocates.
struct GptMemory {
  size_t activation_bytes = 0;  ///< kept between forward and backward
  size_t scratch_bytes = 0;     ///< logits chunk, gradients of activations, bf16 copies, workspaces
};

class Gpt {
 public:
  /// Room for micro-batches of up to max_batch rows of up to max_time tokens. `training` false: forward only.
  Gpt(const GptConfig& config, ComputeType compute, int64_t max_batch, int64_t max_time,
      bool training = true);
  ~Gpt();
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  static GptMemory plan(const GptConfig& config, ComputeType compute, int64_t max_batch, int64_t max_time,
                        bool training = true);

  const GptConfig& config() const;
  const ParameterRegistry& parameters() const;

  /// Must be called after the parameters changed and before the next pass (refreshes the bf16 copies; cheap
  /// in fp32).
  void parameters_changed(const float* params);

  /// Training mode (dropout on). grads (flat) are overwritten when `first`, else added to.
  LossSums forward_backward(const Batch& batch, const DropoutContext& dropout, const float* params,
                            bool first, float* grads);
  /// Evaluation mode (dropout off).
  LossSums evaluate(const Batch& batch, const float* params);
  /// Evaluation mode; logits (B * T, V) are written to `logits`. For tests, goldens and sampling without a
  /// cache.
  void logits(const Batch& batch, const float* params, float* logits);
  /// What the last pass kept, by the golden tests' names: "embed", "ln_f" (evaluation only) and "h.I." with
  /// qkv, attn, resid_mid, fc (training passes only), resid. Null for other names.
  const float* kept_activation(std::string_view name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Rows of a micro-batch: as many as keep it near the token count at which the products run at full speed
/// while the activations stay small (docs/lab-log.md has the measurements). At least 1, at most `rows`.
int64_t choose_micro_rows(const GptConfig& config, int64_t rows, int64_t time);

/// The matrix products of one micro-batch's forward and backward pass, each kind once: what the peak is
/// measured on.
std::vector<kernels::GemmProblem> gemm_problems(const GptConfig& config, int64_t rows, int64_t time);

/// Generation with a key/value cache: B sequences in step with each other.
class GptDecoder {
 public:
  GptDecoder(const GptConfig& config, int64_t batch);
  ~GptDecoder();
  /// Appends one token per sequence (tokens (B)) and writes the logits (B, V) of the next. Position must be
  /// below block_size: call reset() and feed the last tokens again when full.
  void append(const int32_t* tokens, const float* params, float* logits);
  void reset();
  int64_t length() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
