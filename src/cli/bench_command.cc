#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/terminal.h"
#include "train/bench_step.h"

namespace lockstep::cli {
namespace {

Result<int> run_bench_step(const ParsedCommand& parsed) {
  BenchStepOptions options;
  options.shape = parsed.value("shape", options.shape);
  LOCKSTEP_ASSIGN(options.compute, compute_type(parsed));
  LOCKSTEP_ASSIGN(options.steps, whole_number(parsed, "steps", options.steps));
  LOCKSTEP_ASSIGN(options.warmup, whole_number(parsed, "warmup", options.warmup));
  LOCKSTEP_ASSIGN(options.micro_rows, whole_number(parsed, "micro-rows", options.micro_rows));
  options.measure_peak = parsed.value("peak", "true") == "true";
  if (options.steps < 0 || options.warmup < 0 || options.micro_rows < 0)
    return Status(Code::kUsage, "lockstep bench step: --steps, --warmup and --micro-rows must be at least 0");
  LOCKSTEP_TRY(use_threads_of(parsed));
  LOCKSTEP_ASSIGN(const BenchStepResult result, bench_step(real_clock(), options));
  if (parsed.has("json")) {
    write_stdout(to_json(result).dump() + "\n");
    return 0;
  }
  write_stdout(fmt::format(
      "{}: {} rows of {} tokens in micro-batches of {}, {} threads\n"
      "step {:.2f} ms median, {:.2f} ms minimum, {:.0f} tokens/s, {:.1f} GFLOP/s{}\nresident {:.1f} MB\n",
      options.shape, result.batch, result.time, result.micro_rows, result.threads, result.step_ms_median,
      result.step_ms_min, result.tokens_per_s, result.gflops,
      result.gemm_peak_gflops > 0.0
          ? fmt::format(" = {:.1f} % of the GEMM peak {:.1f}",
                        100.0 * result.gflops / result.gemm_peak_gflops, result.gemm_peak_gflops)
          : "",
      result.rss_mb));
  return 0;
}

}  // namespace

Command bench_step_command() {
  return {
      "bench step",
      "[flags]",
      0,
      0,
      "measure the speed of a training step",
      "Times whole steps (forward, backward, clip, AdamW) of a standard shape and, between them, the peak "
      "of the matrix products.",
      {{"shape", FlagKind::kValue, "NAME", "flags", "tiny, baby (default) or gpt2."},
       {"dtype", FlagKind::kValue, "CHOICE", "flags", "fp32 (default) or bf16."},
       {"steps", FlagKind::kValue, "N", "flags", "Steps to measure; 0 (default): about five seconds."},
       {"warmup", FlagKind::kValue, "N", "flags", "Steps before that are not counted. Default 3."},
       {"micro-rows", FlagKind::kValue, "N", "flags", "Rows of a micro-batch; 0: as training chooses."},
       {"threads", FlagKind::kValue, "N", "flags", "Threads; 0: as training chooses."},
       {"peak", FlagKind::kBool, "", "flags", "Measure the GEMM peak too. Default yes."},
       {"json", FlagKind::kSwitch, "", "flags", "One JSON line, the last on stdout."}},
      run_bench_step};
}

}  // namespace lockstep::cli
