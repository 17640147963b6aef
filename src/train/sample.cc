#include "train/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "model/gpt.h"
#include "tensor/buffer.h"
#include "train/parameters_io.h"
#include "train/run_state.h"
#include "train/stored_model.h"

namespace lockstep {
namespace {

Status check_options(const SampleOptions& options) {
  const auto wrong = [](const char* flag, auto value, const char* wanted) {
    return Status(Code::kUsage,
                  fmt::format("cannot sample with --{} {}: it must be {}", flag, value, wanted));
  };
  if (options.count < 1) return wrong("count", options.count, "at least 1");
  if (options.max_new_tokens < 0) return wrong("max-new-tokens", options.max_new_tokens, "at least 0");
  if (!(options.temperature >= 0.0) || !std::isfinite(options.temperature))
    return wrong("temperature", options.temperature, "a number of at least 0");
  if (options.top_k < 0) return wrong("top-k", options.top_k, "at least 0");
  if (options.seed < 0) return wrong("seed", options.seed, "at least 0");
  return Status::ok();
}

Result<std::string> prompt_text(FileSystem& files, const std::string& prompt) {
  constexpr std::string_view kFile = "FILE:";
  constexpr uint64_t kPromptBytesMax = 16 << 20;
  if (!prompt.starts_with(kFile)) return prompt;
  Result<std::string> text = files.read(prompt.substr(kFile.size()), kPromptBytesMax);
  if (!text.is_ok()) return std::move(text).status().with_context("cannot read the prompt");
  return text;
}

Result<std::vector<uint16_t>> prompt_tokens(FileSystem& files, const SampleOptions& options,
                                            const CharTokenizer& tokenizer) {
  LOCKSTEP_ASSIGN(const std::string text, prompt_text(files, options.prompt));
  if (text.empty())
    return Status(Code::kUsage, "cannot sample from an empty prompt")
        .with_hint("a model continues something: give at least one character, for example --prompt ' '");
  Result<std::vector<uint16_t>> tokens = tokenizer.encode(text);
  if (tokens.is_ok()) return tokens;
  // The default prompt is a line break; a text of one line does not know it.
  if (options.prompt == SampleOptions().prompt) return std::vector<uint16_t>{0};
  return std::move(tokens).status().with_context("cannot use the prompt");
}

class Generator {
 public:
  Generator(const GptConfig& config, const float* params)
      : config_(config),
        params_(params),
        decoder_(config, 1),
        logits_(static_cast<size_t>(config.vocab_size)) {}

  void start(std::span<const uint16_t> prompt) {
    context_.assign(prompt.begin(), prompt.end());
    feed_last(config_.block_size);
  }

  std::span<const float> logits() const { return logits_; }

  void append(uint16_t token) {
    context_.push_back(token);
    if (decoder_.length() < config_.block_size) {
      feed(token);
    } else {
      feed_last(std::max<int64_t>(1, config_.block_size / 2));
    }
  }

 private:
  void feed(uint16_t token) {
    const int32_t wide = token;
    decoder_.append(&wide, params_, logits_.data());
  }
  void feed_last(int64_t count) {
    decoder_.reset();
    const auto length = static_cast<int64_t>(context_.size());
    for (int64_t i = std::max<int64_t>(0, length - count); i < length; ++i)
      feed(context_[static_cast<size_t>(i)]);
  }

  const GptConfig& config_;
  const float* params_;
  GptDecoder decoder_;
  std::vector<float> logits_;
  std::vector<uint16_t> context_;
};

}  // namespace

int64_t draw_token(std::span<const float> logits, double temperature, int64_t top_k, double uniform) {
  const auto V = static_cast<int64_t>(logits.size());
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature == 0.0) return largest - logits.begin();
  float threshold = -INFINITY;
  if (top_k > 0 && top_k < V) {
    std::vector<float> sorted(logits.begin(), logits.end());
    std::nth_element(sorted.begin(), sorted.begin() + (top_k - 1), sorted.end(), std::greater<>());
    threshold = sorted[static_cast<size_t>(top_k - 1)];
  }
  std::vector<double> cumulated(logits.size());
  double sum = 0.0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= threshold)
      sum += std::exp((static_cast<double>(logits[i]) - static_cast<double>(*largest)) / temperature);
    cumulated[i] = sum;
  }
  // The first whose cumulated weight exceeds the mark, so one of weight 0 is never drawn.
  const auto drawn = std::upper_bound(cumulated.begin(), cumulated.end(), uniform * sum);
  return std::min<int64_t>(drawn - cumulated.begin(), V - 1);
}

Status sample(FileSystem& files, const SampleOptions& options,
              const std::function<void(std::string_view)>& write, const std::function<bool()>& keep_going) {
  LOCKSTEP_TRY(check_options(options));
  LOCKSTEP_ASSIGN(const StoredModel stored, load_stored_model(files, options.out_dir));
  if (!stored.run.tokenizer)
    return Status(Code::kData, fmt::format("cannot sample from {}: the run learned from token files without "
                                           "a tokenizer, so its tokens cannot be shown as text",
                                           stored.path))
        .with_hint("token files with a meta.json or meta.pkl beside them have one");
  const CharTokenizer& tokenizer = *stored.run.tokenizer;
  LOCKSTEP_ASSIGN(const std::vector<uint16_t> prompt, prompt_tokens(files, options, tokenizer));

  Generator generator(stored.run.model, stored.params.floats());
  for (int64_t i = 0; i < options.count && keep_going(); ++i) {
    if (i > 0) write("\n---------------\n");
    const RandomStream random(static_cast<uint64_t>(options.seed), Purpose::kSampling,
                              static_cast<uint32_t>(i));
    write(tokenizer.decode(prompt));
    generator.start(prompt);
    for (int64_t n = 0; n < options.max_new_tokens && keep_going(); ++n) {
      const int64_t token = draw_token(generator.logits(), options.temperature, options.top_k,
                                       random.uniform(static_cast<uint64_t>(n)));
      write(tokenizer.decode_one(static_cast<uint16_t>(token)));
      if (n + 1 < options.max_new_tokens) generator.append(static_cast<uint16_t>(token));
    }
  }
  write("\n");
  return Status::ok();
}

}  // namespace lockstep
