// Text from a checkpoint: the model's own continuation of a prompt, token by token, with a key/value cache.
//
// The cache holds block_size positions. When it is full the last half of the context is fed again and the
// generation goes on from there: the model then sees between half and all of block_size tokens, where nanoGPT
// recomputes all of them for every token. Sample i is a function of (checkpoint, prompt, settings, seed, i).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "base/status.h"

namespace lockstep {

struct SampleOptions {
  std::string out_dir;        ///< of the run, or one of its checkpoints
  std::string prompt = "\n";  ///< or FILE:path
  int64_t count = 1;          ///< samples
  int64_t max_new_tokens = 500;
  double temperature = 0.8;  ///< 0: always the most likely token
  int64_t top_k = 200;       ///< only the k most likely tokens; 0: all
  int64_t seed = 1337;
};

/// Hands the text to `write` as it comes, prompt included; samples are separated by a line of dashes.
/// kUsage for options out of bounds, kData for a prompt with characters that the vocabulary lacks.
Status sample(FileSystem& files, const SampleOptions& options,
              const std::function<void(std::string_view)>& write, const std::function<bool()>& keep_going);

/// The index drawn from logits at `uniform` in [0, 1): temperature, the top_k largest (ties with the k-th
/// stay), softmax in double, inverse of the cumulated probabilities in index order.
int64_t draw_token(std::span<const float> logits, double temperature, int64_t top_k, double uniform);

}  // namespace lockstep
