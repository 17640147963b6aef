#include <fmt/format.h>

#include "cli/command.h"
#include "cli/terminal.h"
#include "train/inspect_step.h"
#include "train/stored_model.h"

namespace lockstep::cli {
namespace {

Result<int> run_inspect(const ParsedCommand& parsed) {
  LOCKSTEP_ASSIGN(const std::string text, describe_checkpoints(real_file_system(), parsed.arguments[0]));
  write_stdout(text);
  return 0;
}

Result<int> run_inspect_step(const ParsedCommand& parsed) {
  InspectStepOptions options;
  const std::pair<const char*, std::string*> paths[] = {{"config", &options.config_path},
                                                        {"init", &options.init_path},
                                                        {"batch", &options.batch_path},
                                                        {"out", &options.out_path}};
  for (const auto& [flag, path] : paths) {
    *path = parsed.value(flag, "");
    if (path->empty())
      return Status(Code::kUsage, fmt::format("lockstep inspect step needs --{}", flag))
          .with_hint(
              "usage: lockstep inspect step --config C.json --init W.safetensors --batch "
              "B.safetensors --out O.safetensors");
  }
  LOCKSTEP_ASSIGN(options.compute, compute_type(parsed));
  LOCKSTEP_ASSIGN(options.micro_rows, whole_number(parsed, "micro-rows", 0));
  if (options.micro_rows < 0)
    return Status(Code::kUsage,
                  fmt::format("cannot set --micro-rows to {}: it must be at least 0", options.micro_rows));
  LOCKSTEP_TRY(use_threads_of(parsed));
  LOCKSTEP_ASSIGN(const InspectStepResult result, inspect_step(real_file_system(), options));
  write_stdout(fmt::format("loss {:.6f} over {} tokens, gradient norm {:.6f}, {} parameters: {}\n",
                           result.loss, result.tokens, result.grad_norm, result.parameters,
                           options.out_path));
  return 0;
}

}  // namespace

Command inspect_command() {
  return {"inspect",
          "OUT",
          1,
          1,
          "tell what a checkpoint is",
          "OUT is the folder of a run or one checkpoint. Prints step, shape, losses, data and recipe of the "
          "newest one, and checks every file of every checkpoint against its hash.",
          {},
          run_inspect};
}

Command inspect_step_command() {
  return {"inspect step",
          "--config C.json --init W.safetensors --batch B.safetensors --out O.safetensors",
          0,
          0,
          "one training step on given weights and tokens, all results written out",
          "Does one forward and backward pass, clipping and one AdamW update (t = 1), and writes the loss, "
          "every gradient before clipping and every parameter after the update, to be compared with another "
          "program.",
          {{"config", FlagKind::kValue, "FILE", "files",
            "JSON: n_layer, n_head, n_embd, block_size, vocab_size, bias, dropout (0), learning_rate, "
            "weight_decay, beta1, beta2, grad_clip, and maybe gelu."},
           {"init", FlagKind::kValue, "FILE", "files", "Weights under nanoGPT's names, float32 safetensors."},
           {"batch", FlagKind::kValue, "FILE", "files",
            "Tokens: int32 x and y of shape (batch, time); y = -1 is not counted."},
           {"out", FlagKind::kValue, "FILE", "files", "Where loss, grad.NAME and param.NAME go."},
           {"dtype", FlagKind::kValue, "CHOICE", "flags", "fp32 (default) or bf16."},
           {"micro-rows", FlagKind::kValue, "N", "flags",
            "Rows of a micro-batch; 0 (default): as training chooses. The sums are grouped by it."},
           {"threads", FlagKind::kValue, "N", "flags", "Threads; the result does not depend on it."}},
          run_inspect_step};
}

}  // namespace lockstep::cli
