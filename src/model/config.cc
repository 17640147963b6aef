#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

/// Parameters without wpe, in double so that absurd shapes do not overflow.
double parameter_estimate(const GptConfig& config) {
  const auto L = static_cast<double>(config.n_layer), C = static_cast<double>(config.n_embd);
  const auto V = static_cast<double>(config.vocab_size);
  const double norms = (2.0 * L + 1.0) * C * (config.bias ? 2.0 : 1.0);
  const double biases = config.bias ? L * 9.0 * C : 0.0;  // qkv 3C, attention output C, MLP 4C and C
  return V * C + L * 12.0 * C * C + norms + biases;
}

}  // namespace

Status GptConfig::validate() const {
  constexpr int64_t kSizeMax = int64_t{1} << 20;
  const struct {
    const char* name;
    int64_t value;
  } sizes[] = {{"n_layer", n_layer},
               {"n_head", n_head},
               {"n_embd", n_embd},
               {"block_size", block_size},
               {"vocab_size", vocab_size}};
  for (const auto& size : sizes) {
    if (size.value < 1 || size.value > kSizeMax)
      return Status(Code::kUsage,
                    fmt::format("{} is {}, which is outside 1 … {}", size.name, size.value, kSizeMax));
  }
  if (n_embd % n_head != 0)
    return Status(Code::kUsage, fmt::format("n_embd {} is not a multiple of n_head {}", n_embd, n_head))
        .with_hint(fmt::format("the nearest n_embd values are {} and {}",
                               std::max(n_head, n_embd / n_head * n_head), (n_embd / n_head + 1) * n_head));
  if (!(dropout >= 0.0f && dropout < 1.0f))
    return Status(Code::kUsage, fmt::format("dropout is {}, which is outside [0, 1)", dropout));
  constexpr double kParametersMax = 1e12;  // keeps every size below in 64 bits; no machine holds more
  if (parameter_estimate(*this) > kParametersMax)
    return Status(Code::kUsage,
                  fmt::format("this shape has {:.3g} parameters, more than the {:.0g} that are supported",
                              parameter_estimate(*this), kParametersMax));
  return Status::ok();
}

double flops_per_token(const GptConfig& config, int64_t time) {
  const auto L = static_cast<double>(config.n_layer), C = static_cast<double>(config.n_embd);
  return 6.0 * parameter_estimate(config) + 12.0 * L * C * static_cast<double>(time);
}

}  // namespace lockstep
