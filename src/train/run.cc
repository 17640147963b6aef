#include "train/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory_info.h"
#include "checkpoint/checkpoint.h"
#include "kernels/gemm.h"
#include "kernels/gemm_peak.h"
#include "kernels/isa.h"
#include "kernels/threads.h"
#include "report/metrics.h"
#include "report/progress.h"
#include "train/announce.h"
#include "train/evaluate.h"
#include "train/parameters_io.h"
#include "train/prepare.h"
#include "train/run_state.h"
#include "train/step.h"
#include "train/stored_model.h"
#include "train/threads.h"

namespace lockstep {
namespace {

using nlohmann::json;

// A step in flight is finished after an interruption when that takes at most so long; else it is dropped.
constexpr double kFinishStepMsMax = 10e3;

/// Names a run for ever; no two runs share one. Not part of the run's random numbers.
std::string make_lineage() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

class Run {
 public:
  Run(const TrainRequest& request, const TrainEnvironment& environment)
      : request_(request),
        environment_(environment),
        files_(environment.files),
        clock_(environment.clock),
        display_(environment.write, environment.clock, environment.terminal, environment.width) {}

  Result<TrainSummary> execute();

 private:
  Status open_new();
  Status open_resumed();
  Status resume_from(const CheckpointInfo& checkpoint, const ResumeTarget& target);
  Status make_engine();
  void announce();
  Status open_metrics();
  Status train_steps();
  Status one_step(bool& dropped);
  Status log_step(const StepWork& work, const UpdateNumbers& numbers, double step_ms);
  std::optional<double> cpu_mhz();
  void measure_peak();
  void show_progress(bool last);
  Status evaluate_if_due();
  Status evaluate_everything();
  Status save();
  Status save_if_due();
  Status finish();
  Status stop_interrupted();
  Status stop_failed(const Status& cause);

  CheckpointContent checkpoint_content();
  int stop_signal() const { return environment_.stop_signal ? environment_.stop_signal->load() : 0; }
  bool stopping() const { return stop_signal() != 0; }
  void say(const std::string& line) { display_.print_line(line); }
  int64_t last_step() const { return plan_.recipe.eval_only ? state_.step : plan_.recipe.max_iters; }

  const TrainRequest& request_;
  const TrainEnvironment& environment_;
  FileSystem& files_;
  Clock& clock_;
  ProgressDisplay display_;

  RunPlan plan_;
  RunState state_;
  ThreadsInUse threads_;
  bool resumed_ = false;
  std::unique_ptr<StepEngine> engine_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<SampleSchedule> schedule_;
  LearningRateSchedule learning_rate_;
  std::unique_ptr<DirectoryLock> out_dir_lock_;
  std::optional<MetricsWriter> metrics_;

  int64_t saved_step_ = -1;
  std::chrono::nanoseconds saved_at_{0};
  std::string saved_path_;
  double step_ms_average_ = 0.0;
  std::unique_ptr<kernels::GemmPeak> peak_;
  double gemm_peak_gflops_ = 0.0, peak_s_ = 0.0;
  bool peak_measured_ = false;
  std::optional<std::chrono::nanoseconds> cpu_mhz_at_;
  std::optional<double> cpu_mhz_;
  TrainSummary summary_;
};

// ---- opening -------------------------------------------------------------------------------------------

Status Run::make_engine() {
  const Recipe& recipe = plan_.recipe;
  StepConfig config;
  config.model = plan_.model;
  config.compute = recipe.compute_type();
  config.adamw = recipe.adamw_config();
  config.rows = recipe.rows_per_step();
  config.seed = static_cast<uint64_t>(recipe.seed);
  LOCKSTEP_ASSIGN(threads_, use_threads(files_, recipe.threads));

  const auto available = read_memory_info(files_).available_bytes;
  if (Status fits = check_memory(StepEngine::plan(config), available); !fits.is_ok()) {
    if (!request_.force) return fits;
    log_warning("{}", fits.message());
  }
  engine_ = std::make_unique<StepEngine>(config, clock_);
  evaluator_ = std::make_unique<Evaluator>(engine_->model(), engine_->micro_rows(), config.seed);
  schedule_ =
      std::make_unique<SampleSchedule>(config.seed, recipe.sampling_kind(),
                                       static_cast<int64_t>(plan_.dataset.train.size()), recipe.block_size);
  learning_rate_ = recipe.schedule();
  return Status::ok();
}

Status Run::open_new() {
  LOCKSTEP_ASSIGN(plan_, plan_new_run(request_, files_));
  LOCKSTEP_TRY(make_engine());
  engine_->registry().initialise(static_cast<uint64_t>(plan_.recipe.seed), engine_->parameters());
  engine_->parameters_changed();
  state_.lineage = make_lineage();
  return Status::ok();
}

Status Run::resume_from(const CheckpointInfo& checkpoint, const ResumeTarget& target) {
  LOCKSTEP_ASSIGN(const json object, read_checkpoint_state(files_, checkpoint.path));
  LOCKSTEP_ASSIGN(const StoredRun stored, stored_run_from_json(object, checkpoint.path));
  LOCKSTEP_ASSIGN(plan_, plan_resumed_run(request_, files_, target, stored));
  LOCKSTEP_TRY(check_model_file(files_, checkpoint.path, stored.model));
  engine_.reset();  // of a damaged checkpoint tried before; two do not fit
  LOCKSTEP_TRY(make_engine());
  CheckpointContent content = checkpoint_content();
  LOCKSTEP_TRY(load_checkpoint(files_, checkpoint.path, content));
  if (content.step != stored.state.step)
    return {Code::kData, fmt::format("cannot use checkpoint {}: its files are of step {}, its state of {}",
                                     checkpoint.path, content.step, stored.state.step)};
  engine_->parameters_changed();
  state_ = stored.state;
  saved_step_ = state_.step;
  saved_path_ = checkpoint.path;
  return Status::ok();
}

Status Run::open_resumed() {
  resumed_ = true;
  LOCKSTEP_ASSIGN(const ResumeTarget target, find_resume_target(request_, files_));
  Status first_failure;
  for (const CheckpointInfo& checkpoint : target.checkpoints) {
    Status resumed = resume_from(checkpoint, target);
    if (resumed.is_ok()) return resumed;
    // Damage sends us to the next older one; what the user asked for does not get better with age.
    if (resumed.code() != Code::kData && resumed.code() != Code::kIo) return resumed;
    log_warning("{}", resumed.message());
    if (first_failure.is_ok()) first_failure = std::move(resumed);
  }
  return std::move(first_failure).with_context(fmt::format("cannot resume the run in {}", target.out_dir));
}

CheckpointContent Run::checkpoint_content() {
  CheckpointContent content;
  content.step = state_.step;
  content.model = named_tensors(engine_->registry(), engine_->parameters());
  content.optimizer = named_tensors(engine_->registry(), engine_->optimizer().first_moment(), "exp_avg.");
  const std::vector<NamedTensor> second =
      named_tensors(engine_->registry(), engine_->optimizer().second_moment(), "exp_avg_sq.");
  content.optimizer.insert(content.optimizer.end(), second.begin(), second.end());
  return content;
}

void Run::announce() {
  RunFacts facts;
  facts.recipe = &plan_.recipe;
  facts.model = &plan_.model;
  facts.dataset = &plan_.dataset;
  facts.out_dir = plan_.out_dir;
  facts.parameter_count = engine_->registry().parameter_count();
  facts.parameter_count_without_positions = engine_->registry().parameter_count_without_positions();
  facts.threads = threads_.choice.threads;
  facts.threads_reason = threads_.choice.reason;
  facts.cpu = threads_.topology.model_name;
  facts.isa = kernels::current_isa();
  facts.gemm_library = kernels::gemm_library();
  facts.slow_bf16 = plan_.recipe.compute_type() == ComputeType::kBf16 && !kernels::cpu_has_fast_bf16();
  StepConfig config;
  config.model = plan_.model;
  config.compute = plan_.recipe.compute_type();
  config.rows = plan_.recipe.rows_per_step();
  facts.memory = StepEngine::plan(config);
  facts.available_bytes = read_memory_info(files_).available_bytes;
  facts.micro_rows = engine_->micro_rows();
  if (!threads_.choice.warning.empty()) plan_.notes.push_back(threads_.choice.warning);
  for (const std::string& note : plan_.notes) say("note: " + note);
  for (const std::string& line : describe_run(facts)) say(line);
  if (resumed_) say(fmt::format("resuming from {} (step {})", saved_path_, state_.step));
  if (state_.step >= last_step()) return;
  // The first pass also makes the kernels' code and touches the memory, which no step should pay for.
  engine_->time_micro_batch();
  const double micro_ms = engine_->time_micro_batch();
  step_ms_average_ =
      micro_ms * static_cast<double>(engine_->rows()) / static_cast<double>(engine_->micro_rows());
  say(fmt::format("expected time: {} ({:.3g} ms a step)",
                  format_duration(estimate_remaining_s(plan_.recipe, plan_.model, plan_.dataset, state_.step,
                                                       step_ms_average_ / 1e3)),
                  step_ms_average_));
}

Status Run::open_metrics() {
  const std::optional<int64_t> resume_step =
      resumed_ ? std::optional<int64_t>(state_.step) : std::optional<int64_t>();
  // Two runs in one folder would remove each other's half-written checkpoints.
  LOCKSTEP_TRY(create_directories_durably(files_, plan_.out_dir));
  Result<std::unique_ptr<DirectoryLock>> lock = files_.lock_directory(plan_.out_dir);
  if (!lock.is_ok())
    return std::move(lock)
        .status()
        .with_context(fmt::format("cannot train into {}", plan_.out_dir))
        .with_hint("wait for the other run or stop it, or choose another --out-dir");
  out_dir_lock_ = std::move(lock).value();
  LOCKSTEP_ASSIGN(metrics_, MetricsWriter::open(files_, plan_.out_dir, resume_step));
  json run;
  run["version"] = environment_.version;
  run["recipe"] = recipe_to_json(plan_.recipe);
  run["vocab_size"] = plan_.model.vocab_size;
  run["parameters"] = engine_->registry().parameter_count();
  run["data"] = {{"name", plan_.dataset.name},
                 {"content_hash", plan_.dataset.content_hash},
                 {"train_tokens", plan_.dataset.train.size()},
                 {"val_tokens", plan_.dataset.val.size()}};
  run["lineage"] = state_.lineage;
  run["generation"] = state_.generation;
  run["from_step"] = state_.step;
  run["threads"] = kernels::thread_count();
  run["cpu"] = threads_.topology.model_name;
  run["isa"] = kernels::current_isa();
  run["gemm_library"] = kernels::gemm_library();
  return metrics_->write_run(run, clock_.unix_seconds());
}

// ---- steps ---------------------------------------------------------------------------------------------

Status Run::one_step(bool& dropped) {
  const int64_t step = state_.step + 1;
  const std::chrono::nanoseconds begin = clock_.now();
  const double micro_batches =
      std::ceil(static_cast<double>(engine_->rows()) / static_cast<double>(engine_->micro_rows()));
  double done = 0.0;
  bool told = false;
  const auto keep_going = [&] {
    const double elapsed_ms = milliseconds_between(begin, clock_.now());
    const double micro_ms = done > 0.0 ? elapsed_ms / done : step_ms_average_ / micro_batches;
    const bool finish = !stopping() || micro_ms * (micro_batches - done) <= kFinishStepMsMax;
    if (stopping() && finish && !told) say(fmt::format("stopping: finishing step {}", step));
    told = told || stopping();
    done += 1.0;
    return finish;
  };
  const StepWork work = engine_->compute(plan_.dataset.train, *schedule_, step, state_.samples,
                                         {0, engine_->rows()}, keep_going);
  dropped = !work.complete;
  if (dropped) return Status::ok();
  // nanoGPT's iteration numbers start at 0.
  LOCKSTEP_ASSIGN(const UpdateNumbers numbers,
                  engine_->make_numbers(step, learning_rate_.at(step - 1), work));
  engine_->apply(numbers);
  const double step_ms = milliseconds_between(begin, clock_.now());
  state_.step = step;
  state_.samples += engine_->rows();
  state_.tokens += work.tokens;
  state_.loss = work.loss_sum / static_cast<double>(work.tokens);
  state_.train_s += step_ms / 1e3;
  step_ms_average_ = step_ms_average_ > 0.0 ? 0.9 * step_ms_average_ + 0.1 * step_ms : step_ms;
  return log_step(work, numbers, step_ms);
}

Status Run::log_step(const StepWork& work, const UpdateNumbers& numbers, double step_ms) {
  StepEvent event;
  event.step = state_.step;
  event.loss = *state_.loss;
  event.lr = numbers.learning_rate;
  event.grad_norm = numbers.grad_norm;
  event.tokens = work.tokens;
  event.step_ms = step_ms;
  event.tokens_per_s = static_cast<double>(work.tokens) / (step_ms / 1e3);
  event.lineage = state_.lineage;
  event.generation = state_.generation;
  RankStep rank;
  rank.rows = engine_->rows();
  rank.samples = work.samples;
  rank.compute_ms = work.compute_ms;
  rank.cpu_mhz = cpu_mhz();
  event.ranks.push_back(std::move(rank));
  // Hashing reads all parameters once more: only where a checkpoint by step lets it be compared.
  const int64_t interval = plan_.recipe.checkpoint_interval;
  if (state_.step == plan_.recipe.max_iters || (interval > 0 && state_.step % interval == 0))
    event.params_hash = xxh3_hex(engine_->parameter_bytes());
  event.t_unix_s = clock_.unix_seconds();
  return metrics_->write_step(event);
}

void Run::show_progress(bool last) {
  if (!last && state_.step % plan_.recipe.log_interval != 0) return;
  const auto tokens_per_step = static_cast<double>(engine_->rows() * plan_.model.block_size);
  TrainProgress progress;
  progress.step = state_.step;
  progress.steps = plan_.recipe.max_iters;
  progress.loss = state_.loss.value_or(NAN);
  progress.tokens_per_s = tokens_per_step / (step_ms_average_ / 1e3);
  progress.gflops = flops_per_token(plan_.model, plan_.model.block_size) * progress.tokens_per_s / 1e9;
  progress.gemm_peak_gflops = gemm_peak_gflops_;
  progress.remaining_s =
      estimate_remaining_s(plan_.recipe, plan_.model, plan_.dataset, state_.step, step_ms_average_ / 1e3);
  progress.eval_share = state_.eval_s / std::max(1e-9, state_.eval_s + state_.train_s);
  display_.update(progress);
}

std::optional<double> Run::cpu_mhz() {
  // Asking costs system calls and the clock does not jump: once a second.
  const std::chrono::nanoseconds now = clock_.now();
  if (!cpu_mhz_at_ || now - *cpu_mhz_at_ >= std::chrono::seconds(1)) {
    cpu_mhz_at_ = now;
    cpu_mhz_ = current_cpu_mhz(files_, threads_.topology.cpus);
  }
  return cpu_mhz_;
}

void Run::measure_peak() {
  // The first full round is all that is needed, a candidate at a time, never more than a twentieth of the
  // time; the matrices are freed after it.
  constexpr double kShareMax = 0.05;
  constexpr size_t kPeakBytesMax = size_t{16} << 20;
  if (!environment_.measure_peak || peak_measured_ || peak_s_ > kShareMax * state_.train_s) return;
  const std::chrono::nanoseconds begin = clock_.now();
  if (!peak_)
    peak_ = std::make_unique<kernels::GemmPeak>(
        gemm_problems(plan_.model, engine_->micro_rows(), plan_.model.block_size),
        plan_.recipe.compute_type() == ComputeType::kBf16 ? kernels::GemmType::kBf16
                                                          : kernels::GemmType::kFp32,
        kPeakBytesMax);
  peak_->sample(0.0);
  gemm_peak_gflops_ = peak_->best_gflops();
  peak_measured_ = peak_->run_count() >= peak_->candidate_count();
  if (peak_measured_) peak_.reset();
  peak_s_ += milliseconds_between(begin, clock_.now()) / 1e3;
}

Status Run::train_steps() {
  LOCKSTEP_TRY(evaluate_if_due());
  while (state_.step < last_step() && !stopping()) {
    bool dropped = false;
    LOCKSTEP_TRY(one_step(dropped));
    if (dropped) {
      say(fmt::format("stopping: step {} was dropped, it would have taken long; nothing before it is lost",
                      state_.step + 1));
      break;
    }
    measure_peak();
    show_progress(state_.step == last_step());
    LOCKSTEP_TRY(evaluate_if_due());
    LOCKSTEP_TRY(save_if_due());
  }
  return Status::ok();
}

// ---- evaluation ----------------------------------------------------------------------------------------

Status Run::evaluate_if_due() {
  const Recipe& recipe = plan_.recipe;
  const bool due = state_.step == 0 ? recipe.eval_at_start
                                    : recipe.eval_interval > 0 && state_.step % recipe.eval_interval == 0;
  // The last step is followed by the evaluation of everything.
  if (!due || state_.evaluated_step == state_.step || state_.step >= last_step()) return Status::ok();
  const std::chrono::nanoseconds begin = clock_.now();
  const auto keep_going = [&] { return !stopping(); };
  const int64_t rows = recipe.eval_iters * recipe.batch_size;
  const auto train_part =
      evaluator_->random_rows(plan_.dataset.train, Split::kTrain, rows, engine_->parameters(), keep_going);
  if (!train_part) return Status::ok();
  const auto val_part =
      evaluator_->random_rows(plan_.dataset.val, Split::kVal, rows, engine_->parameters(), keep_going);
  if (!val_part) return Status::ok();
  EvalEvent event;
  event.step = state_.step;
  event.train_loss = train_part->loss;
  event.val_loss = val_part->loss;
  event.tokens = train_part->tokens + val_part->tokens;
  event.eval_ms = milliseconds_between(begin, clock_.now());
  state_.eval_s += event.eval_ms / 1e3;
  state_.evaluated_step = state_.step;
  state_.val_loss = event.val_loss;
  say(fmt::format("step {}: train loss {:.4f}, val loss {:.4f}", state_.step, train_part->loss,
                  event.val_loss));
  return metrics_->write_eval(event, clock_.unix_seconds());
}

Status Run::evaluate_everything() {
  if (resumed_ && state_.step == saved_step_ && !plan_.recipe.eval_only) {
    const auto logged = last_logged_evaluation(files_, plan_.out_dir);
    if (logged && logged->full && logged->step == state_.step) {
      summary_.val_loss = logged->val_loss;
      say(fmt::format("step {}: val loss {:.4f} over the whole validation set (evaluated before)",
                      state_.step, logged->val_loss));
      return Status::ok();
    }
  }
  const std::chrono::nanoseconds begin = clock_.now();
  std::chrono::nanoseconds told = begin;
  const auto progress = [&](int64_t tokens, int64_t tokens_all) {
    const std::chrono::nanoseconds now = clock_.now();
    if (now - told > std::chrono::seconds(5)) {
      told = now;
      const double elapsed_s = milliseconds_between(begin, now) / 1e3;
      const double share = static_cast<double>(tokens) / static_cast<double>(tokens_all);
      say(fmt::format("evaluating the whole validation set: {:.0f} %, {} left", 100.0 * share,
                      format_duration(elapsed_s / share - elapsed_s)));
    }
    return !stopping();
  };
  const auto whole = evaluator_->whole_split(plan_.dataset.val, engine_->parameters(), progress);
  if (!whole) return Status::ok();
  EvalEvent event;
  event.step = state_.step;
  event.val_loss = whole->loss;
  event.tokens = whole->tokens;
  event.eval_ms = milliseconds_between(begin, clock_.now());
  event.full = true;
  state_.eval_s += event.eval_ms / 1e3;
  summary_.val_loss = whole->loss;
  say(
      fmt::format("step {}: val loss {:.4f} over the whole validation set ({} tokens); evaluation took "
                  "{:.0f} % of the time",
                  state_.step, whole->loss, whole->tokens,
                  100.0 * state_.eval_s / std::max(1e-9, state_.eval_s + state_.train_s)));
  return metrics_->write_eval(event, clock_.unix_seconds());
}

// ---- checkpoints and ends ------------------------------------------------------------------------------

Status Run::save() {
  if (saved_step_ == state_.step) return Status::ok();
  const std::chrono::nanoseconds begin = clock_.now();
  const json state = stored_run_to_json(state_, plan_.recipe, plan_.model, plan_.dataset);
  LOCKSTEP_TRY(save_checkpoint(files_, plan_.out_dir, checkpoint_content(), state,
                               static_cast<int>(plan_.recipe.keep_checkpoints)));
  const std::chrono::nanoseconds end = clock_.now();
  saved_step_ = state_.step;
  saved_at_ = end;
  saved_path_ = fmt::format("{}/checkpoints/{}", plan_.out_dir, state_.step);
  return metrics_->write_checkpoint(state_.step, saved_path_, milliseconds_between(begin, end),
                                    clock_.unix_seconds());
}

Status Run::save_if_due() {
  const Recipe& recipe = plan_.recipe;
  const bool by_step = recipe.checkpoint_interval > 0 && state_.step % recipe.checkpoint_interval == 0;
  const double minutes = milliseconds_between(saved_at_, clock_.now()) / 60e3;
  const bool by_time = recipe.checkpoint_minutes > 0.0 && minutes >= recipe.checkpoint_minutes;
  return by_step || by_time ? save() : Status::ok();
}

Status Run::stop_interrupted() {
  summary_.interrupted = true;
  LOCKSTEP_TRY(save());
  say(fmt::format("interrupted: saved step {} in {}", state_.step, saved_path_));
  say("to go on: " + resume_command(plan_.out_dir));
  return metrics_->write_end(state_.step, "interrupted", clock_.unix_seconds());
}

Status Run::stop_failed(const Status& cause) {
  display_.finish();
  // Numbers that are not finite were never applied, so the state is good and worth keeping; on a full disk
  // saving fails as well and leaves what is there.
  Status saved = metrics_ && state_.step > 0 ? save() : Status::ok();
  if (metrics_) static_cast<void>(metrics_->write_end(state_.step, "error", clock_.unix_seconds()));
  const std::string kept = saved_step_ < 0
                               ? "no checkpoint was written yet"
                               : fmt::format("the state after step {} is in {}", saved_step_, saved_path_);
  std::string hint = kept;
  if (cause.code() == Code::kNonFinite) {
    hint += fmt::format("; go on from it with a lower learning rate: {} --learning-rate {:g}",
                        resume_command(plan_.out_dir), plan_.recipe.learning_rate / 3.0);
  } else if (saved_step_ >= 0) {
    hint += "; to go on: " + resume_command(plan_.out_dir);
  }
  // What is left is the first thing to know; what the deeper level advises comes after it.
  if (!cause.hint().empty()) hint += "; " + cause.hint();
  return Status(cause.code(), cause.message()).with_hint(hint);
}

Status Run::finish() {
  if (stopping()) return stop_interrupted();
  LOCKSTEP_TRY(save());
  LOCKSTEP_TRY(evaluate_everything());
  if (stopping()) return stop_interrupted();
  say(fmt::format("done: step {}, checkpoint {}", state_.step, saved_path_));
  return metrics_->write_end(state_.step, "done", clock_.unix_seconds());
}

Result<TrainSummary> Run::execute() {
  LOCKSTEP_ASSIGN(const bool resume, wants_resume(request_, files_));
  LOCKSTEP_TRY(resume ? open_resumed() : open_new());
  summary_.out_dir = plan_.out_dir;
  announce();
  saved_at_ = clock_.now();
  Status ran = open_metrics();
  if (ran.is_ok()) ran = train_steps();
  display_.finish();
  if (ran.is_ok()) ran = finish();
  summary_.step = state_.step;
  if (!ran.is_ok()) return stop_failed(ran);
  return summary_;
}

}  // namespace

std::string resume_command(const std::string& out_dir) {
  const bool plain =
      out_dir.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+:,@%") ==
      std::string::npos;
  std::string quoted;
  for (const char c : out_dir) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return fmt::format("lockstep train --resume --out-dir {}", plain ? out_dir : "'" + quoted + "'");
}

Result<TrainSummary> train(const TrainRequest& request, const TrainEnvironment& environment) {
  return Run(request, environment).execute();
}

}  // namespace lockstep
