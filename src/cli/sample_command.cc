#include "cli/command.h"
#include "cli/terminal.h"
#include "train/sample.h"

namespace lockstep::cli {
namespace {

Result<int> run_sample(const ParsedCommand& parsed) {
  SampleOptions options;
  options.out_dir = parsed.arguments[0];
  options.prompt = parsed.value("start", options.prompt);
  options.prompt = parsed.value("prompt", options.prompt);
  LOCKSTEP_ASSIGN(options.count, whole_number(parsed, "num-samples", options.count));
  LOCKSTEP_ASSIGN(options.count, whole_number(parsed, "count", options.count));
  LOCKSTEP_ASSIGN(options.max_new_tokens, whole_number(parsed, "max-new-tokens", options.max_new_tokens));
  LOCKSTEP_ASSIGN(options.temperature, real_number(parsed, "temperature", options.temperature));
  LOCKSTEP_ASSIGN(options.top_k, whole_number(parsed, "top-k", options.top_k));
  LOCKSTEP_ASSIGN(options.seed, whole_number(parsed, "seed", options.seed));
  const std::atomic<int>& stop_signal = catch_stop_signals();
  bool open = true;
  const auto write = [&](std::string_view text) { open = open && write_stdout(text); };
  LOCKSTEP_TRY(sample(real_file_system(), options, write, [&] { return open && stop_signal.load() == 0; }));
  return stop_signal.load() == 0 ? 0 : 128 + stop_signal.load();
}

}  // namespace

Command sample_command() {
  return {"sample",
          "OUT [flags]",
          1,
          1,
          "let a trained model write",
          "OUT is the folder of a run (its newest checkpoint is used) or one checkpoint. The same seed and "
          "settings give the same text.",
          {{"prompt", FlagKind::kValue, "TEXT", "flags",
            "What the model continues; FILE:path takes it from a file. Default: a line break. --start is "
            "nanoGPT's word for it."},
           {"start", FlagKind::kHiddenValue, "TEXT", "", ""},
           {"count", FlagKind::kValue, "N", "flags", "Samples. Default 1. --num-samples means the same."},
           {"num-samples", FlagKind::kHiddenValue, "N", "", ""},
           {"max-new-tokens", FlagKind::kValue, "N", "flags", "Tokens to add to the prompt. Default 500."},
           {"temperature", FlagKind::kValue, "X", "flags",
            "Below 1 the likely becomes likelier and the text duller, above 1 wilder and full of errors; 0 "
            "always takes the most likely token. Default 0.8."},
           {"top-k", FlagKind::kValue, "N", "flags",
            "Draws only from the N most likely tokens; 0 from all. Small values avoid nonsense and repeat "
            "themselves. Default 200."},
           {"seed", FlagKind::kValue, "N", "flags", "Another seed, another text. Default 1337."}},
          run_sample};
}

}  // namespace lockstep::cli
