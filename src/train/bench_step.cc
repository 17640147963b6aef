#include "train/bench_step.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/memory_info.h"
#include "base/random.h"
#include "base/suggest.h"
#include "kernels/gemm.h"
#include "kernels/gemm_peak.h"
#include "kernels/isa.h"
#include "kernels/threads.h"
#include "model/gpt.h"
#include "optim/adamw.h"
#include "tensor/buffer.h"
#include "train/step.h"

namespace lockstep {
namespace {

struct Shape {
  const char* name;
  GptConfig config;
  int64_t batch, time;
};

constexpr Shape kShapes[] = {
    {"tiny", {.n_layer = 4, .n_head = 4, .n_embd = 128, .block_size = 64, .vocab_size = 65}, 12, 64},
    {"baby", {.n_layer = 6, .n_head = 6, .n_embd = 384, .block_size = 256, .vocab_size = 65}, 16, 256},
    {"gpt2",
     {.n_layer = 12, .n_head = 12, .n_embd = 768, .block_size = 1024, .vocab_size = 50304, .bias = true},
     4,
     256},
};

Result<Shape> find_shape(const std::string& name) {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) {
    if (name == shape.name) return shape;
    names.emplace_back(shape.name);
  }
  const std::string nearest = nearest_name(name, names);
  return Status(Code::kUsage, fmt::format("unknown shape {}", name))
      .with_hint(nearest.empty() ? "choose tiny, baby or gpt2" : fmt::format("did you mean {}?", nearest));
}

/// Seconds since this process started, by the kernel's record of it (resolution: one clock tick, 10 ms).
double seconds_since_process_start(Clock& clock) {
  std::ifstream stat("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  // Field 22; the command in field 2 may hold spaces, so count from its closing parenthesis.
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const double start_s = std::strtod(field.c_str(), nullptr) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return std::chrono::duration<double>(clock.now()).count() - start_s;
}

/// The step under test with its own weights and tokens.
class Bench {
 public:
  Bench(const Shape& shape, ComputeType compute, int64_t micro_rows)
      : shape_(shape),
        micro_rows_(micro_rows),
        gpt_(shape.config, compute, micro_rows, shape.time),
        adamw_(gpt_.parameters(), AdamWConfig{}),
        params_(static_cast<size_t>(gpt_.parameters().flat_count()) * sizeof(float)),
        grads_(params_.bytes()) {
    constexpr uint64_t kSeed = 1337;
    gpt_.parameters().initialise(kSeed, params_.floats());
    const RandomStream random(kSeed, Purpose::kTest);
    for (int64_t i = 0; i < shape.batch * shape.time + 1; ++i)
      tokens_.push_back(static_cast<int32_t>(
          random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(shape.config.vocab_size))));
  }

  /// Forward, backward, clip, AdamW; the mean loss before the update.
  double step() {
    gpt_.parameters_changed(params_.floats());
    const Batch batch{.B = shape_.batch, .T = shape_.time, .x = tokens_.data(), .y = tokens_.data() + 1};
    const LossSums sums =
        accumulate_gradients(gpt_, batch, micro_rows_, {}, params_.floats(), grads_.floats());
    constexpr double kRate = 1e-4;
    const UpdateNumbers numbers = make_update_numbers(
        adamw_.config(), ++updates_, kRate, adamw_.gradient_square_sum(grads_.floats()), sums.tokens);
    adamw_.update(numbers, grads_.floats(), params_.floats());
    return sums.loss / static_cast<double>(sums.tokens);
  }
  int64_t parameter_count() const { return gpt_.parameters().parameter_count(); }

 private:
  Shape shape_;
  int64_t micro_rows_;
  Gpt gpt_;
  AdamW adamw_;
  Buffer params_, grads_;
  std::vector<int32_t> tokens_;
  int64_t updates_ = 0;
};

constexpr double kBudgetMs = 5000.0;
constexpr int64_t kStepsMin = 10;

/// Steps and rounds of the ceiling in turn.
std::vector<double> run_steps(Clock& clock, Bench& bench, kernels::GemmPeak* peak, int64_t steps,
                              double& loss) {
  std::vector<double> times_ms;
  double total_ms = 0.0;
  while (steps > 0 ? static_cast<int64_t>(times_ms.size()) < steps
                   : total_ms < kBudgetMs || static_cast<int64_t>(times_ms.size()) < kStepsMin) {
    const auto begin = clock.now();
    loss = bench.step();
    times_ms.push_back(milliseconds_between(begin, clock.now()));
    total_ms += times_ms.back();
    // The ceiling gets three tenths of a step's time after each step, so that it sees the same minutes.
    constexpr double kPeakShare = 0.3;
    if (peak != nullptr) peak->sample(kPeakShare * times_ms.back() / 1000.0);
  }
  while (peak != nullptr && peak->run_count() < peak->candidate_count()) peak->sample();
  return times_ms;
}

}  // namespace

Result<BenchStepResult> bench_step(Clock& clock, const BenchStepOptions& options) {
  LOCKSTEP_ASSIGN(const Shape shape, find_shape(options.shape));
  const int64_t micro_rows = options.micro_rows > 0
                                 ? std::min(options.micro_rows, shape.batch)
                                 : choose_micro_rows(shape.config, shape.batch, shape.time);
  BenchStepResult result{.options = options,
                         .batch = shape.batch,
                         .time = shape.time,
                         .micro_rows = micro_rows,
                         .threads = kernels::thread_count()};
  Bench bench(shape, options.compute, micro_rows);
  result.parameters = bench.parameter_count();
  result.loss = bench.step();
  result.first_step_s = seconds_since_process_start(clock);
  for (int64_t i = 1; i < options.warmup; ++i) bench.step();
  // Memory is constant after the first step; read it before the ceiling's own matrices exist.
  result.rss_mb = static_cast<double>(peak_resident_bytes()) / 1e6;

  std::optional<kernels::GemmPeak> peak;
  if (options.measure_peak)
    peak.emplace(gemm_problems(shape.config, micro_rows, shape.time),
                 options.compute == ComputeType::kBf16 ? kernels::GemmType::kBf16 : kernels::GemmType::kFp32);
  std::vector<double> times_ms = run_steps(clock, bench, peak ? &*peak : nullptr, options.steps, result.loss);
  std::sort(times_ms.begin(), times_ms.end());
  const size_t half = times_ms.size() / 2;
  result.options.steps = static_cast<int64_t>(times_ms.size());
  result.step_ms_min = times_ms.front();
  result.step_ms_median =
      times_ms.size() % 2 == 1 ? times_ms[half] : 0.5 * (times_ms[half - 1] + times_ms[half]);
  const auto tokens = static_cast<double>(shape.batch * shape.time);
  result.tokens_per_s = tokens * 1000.0 / result.step_ms_median;
  result.gflops = flops_per_token(shape.config, shape.time) * result.tokens_per_s / 1e9;
  result.gemm_peak_gflops = peak ? peak->best_gflops() : 0.0;
  return result;
}

nlohmann::json to_json(const BenchStepResult& result) {
  const bool bf16 = result.options.compute == ComputeType::kBf16;
  nlohmann::json json{{"bench", "step"},
                      {"shape", result.options.shape},
                      {"dtype", bf16 ? "bf16" : "fp32"},
                      {"threads", result.threads},
                      {"isa", kernels::current_isa()},
                      {"gemm_library", kernels::gemm_library()},
                      {"batch", result.batch},
                      {"time", result.time},
                      {"micro_rows", result.micro_rows},
                      {"parameters", result.parameters},
                      {"steps", result.options.steps},
                      {"step_ms_min", result.step_ms_min},
                      {"step_ms_median", result.step_ms_median},
                      {"tokens_per_s", result.tokens_per_s},
                      {"gflops", result.gflops},
                      {"gemm_peak_gflops", nullptr},
                      {"peak_fraction", nullptr},
                      {"rss_mb", result.rss_mb},
                      {"first_step_s", result.first_step_s},
                      {"loss", result.loss}};
  if (result.gemm_peak_gflops > 0.0) {
    json["gemm_peak_gflops"] = result.gemm_peak_gflops;
    json["peak_fraction"] = result.gflops / result.gemm_peak_gflops;
  }
  return json;
}

}  // namespace lockstep
