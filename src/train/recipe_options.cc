// The table of options. Help paragraphs say what the option means, its bounds, and what goes wrong on either
// side.
#include "base/cpu_topology.h"
#include "train/recipe.h"

namespace lockstep {
namespace {

using Field = decltype(RecipeOption::field);

// Sizes beyond this are typing errors: 2^20 rows of anything does not fit where this program runs.
constexpr double kSizeMax = 1 << 20;
constexpr double kStepsMax = 4e9;  // a step is a 32-bit key of the dropout masks

RecipeOption number(std::string name, std::string section, Field field, double min, double max,
                    OnResume on_resume, std::string help, bool open = false) {
  return {std::move(name), std::move(section), field, min, max, open, {}, on_resume, std::move(help)};
}
RecipeOption flag(std::string name, std::string section, Field field, OnResume on_resume, std::string help) {
  return {std::move(name), std::move(section), field, 0, 0, false, {}, on_resume, std::move(help)};
}
RecipeOption text(std::string name, std::string section, Field field, std::vector<std::string> choices,
                  OnResume on_resume, std::string help) {
  return {std::move(name),    std::move(section), field,          0, 0, false,
          std::move(choices), on_resume,          std::move(help)};
}

void add_model_options(std::vector<RecipeOption>& options) {
  const char* s = "model";
  options.push_back(number("n_layer", s, &Recipe::n_layer, 1, 1024, OnResume::kFixed,
                           "Transformer blocks. More learn more per token and cost proportionally more time "
                           "and memory; too few and the loss stops falling early."));
  options.push_back(number("n_head", s, &Recipe::n_head, 1, 1024, OnResume::kFixed,
                           "Attention heads per block; n_embd must be a multiple of it. Heads of 32 to 128 "
                           "channels work well; narrower ones attend poorly and run slowly."));
  options.push_back(number("n_embd", s, &Recipe::n_embd, 1, kSizeMax, OnResume::kFixed,
                           "Width of the residual stream. Time and memory grow with its square; multiples "
                           "of 64 use the machine best."));
  options.push_back(number("block_size", s, &Recipe::block_size, 1, kSizeMax, OnResume::kFixed,
                           "Tokens of context in a training row, and the longest the model can look back. "
                           "Long rows cost memory and, in attention, time with the square; with short ones "
                           "the model cannot learn what lies further apart."));
  options.push_back(number("vocab_size", s, &Recipe::vocab_size, 0, 65536, OnResume::kFixed,
                           "Rows of the token table; 0 takes it from the data. Larger than the data needs "
                           "only costs time; smaller is an error."));
  options.push_back(flag("bias", s, &Recipe::bias, OnResume::kFixed,
                         "Biases in linear layers and layer norms, as GPT-2 has them. Without, it is a "
                         "little faster and as good."));
  options.push_back(number("dropout", s, &Recipe::dropout, 0.0, 0.99, OnResume::kChanges,
                           "Share of activations set to zero in training. 0 for few passes over the data; "
                           "0.1 to 0.2 against overfitting on small texts; more slows learning down."));
  options.push_back(text("gelu", s, &Recipe::gelu, {"erf", "tanh"}, OnResume::kFixed,
                         "Form of the activation: erf is exact and nanoGPT's, tanh is OpenAI's GPT-2's."));
}

void add_training_options(std::vector<RecipeOption>& options) {
  const char* s = "training";
  options.push_back(number("batch_size", s, &Recipe::batch_size, 1, kSizeMax, OnResume::kFixed,
                           "Rows of a step, times gradient_accumulation_steps. Large batches give smoother "
                           "steps and fewer of them per hour; small ones are noisy."));
  options.push_back(number("gradient_accumulation_steps", s, &Recipe::gradient_accumulation_steps, 1,
                           kSizeMax, OnResume::kFixed,
                           "Multiplies the rows of a step. lockstep cuts a step into micro-batches that "
                           "suit the machine by itself, so this changes the batch, never the memory."));
  options.push_back(number("learning_rate", s, &Recipe::learning_rate, 0, 10, OnResume::kChanges,
                           "Peak learning rate. Too high and the loss jumps or becomes NaN; too low and it "
                           "falls slowly. About 1e-3 for small models, 6e-4 at 124M parameters.",
                           true));
  options.push_back(number("min_lr", s, &Recipe::min_lr, 0, 10, OnResume::kChanges,
                           "Learning rate at the end of the decay, usually a tenth of the peak. At most "
                           "learning_rate."));
  options.push_back(number("warmup_iters", s, &Recipe::warmup_iters, 0, kStepsMax, OnResume::kChanges,
                           "Steps over which the learning rate rises linearly. Without any, the first "
                           "steps can throw the model off; too many waste time."));
  options.push_back(number("lr_decay_iters", s, &Recipe::lr_decay_iters, 0, kStepsMax, OnResume::kChanges,
                           "Step at which the cosine decay has reached min_lr; usually max_iters. Shorter "
                           "leaves a tail at min_lr, longer never gets there."));
  options.push_back(number("max_iters", s, &Recipe::max_iters, 0, kStepsMax, OnResume::kFree,
                           "Steps of the run: exactly so many updates are applied (nanoGPT does one more). "
                           "A finished run is continued with --resume and a larger value."));
  options.push_back(flag("decay_lr", s, &Recipe::decay_lr, OnResume::kChanges,
                         "Warm-up and cosine decay; false keeps learning_rate constant."));
  options.push_back(number("beta1", s, &Recipe::beta1, 0, 0.99999, OnResume::kChanges,
                           "AdamW's memory of the gradient. 0.9 nearly always."));
  options.push_back(number("beta2", s, &Recipe::beta2, 0, 0.9999999, OnResume::kChanges,
                           "AdamW's memory of the squared gradient: 0.95 for large batches, 0.99 when a "
                           "step has few tokens. Too low is unstable, too high adapts late."));
  options.push_back(number("weight_decay", s, &Recipe::weight_decay, 0, 10, OnResume::kChanges,
                           "Pull of matrices towards zero per step, times the learning rate. 0.1 as usual; "
                           "0 overfits sooner, above 1 the model cannot learn."));
  options.push_back(number("grad_clip", s, &Recipe::grad_clip, 0, 1e6, OnResume::kChanges,
                           "Longest gradient (global L2 norm) that is applied unshortened; 0 never "
                           "shortens, and one bad batch can then ruin the run."));
  options.push_back(text("sampling", s, &Recipe::sampling, {"replacement", "pass"}, OnResume::kFixed,
                         "How rows are chosen: replacement draws each at random, as nanoGPT does; pass "
                         "walks the whole text in shuffled order before anything repeats."));
  options.push_back(number("seed", s, &Recipe::seed, 0, 9007199254740991.0, OnResume::kFixed,
                           "Start of every random number of the run: weights, rows, dropout. Same seed and "
                           "settings, same result, bit for bit on the same machine."));
}

void add_run_options(std::vector<RecipeOption>& options) {
  const char* s = "run";
  options.push_back(text("data", s, &Recipe::data, {}, OnResume::kFree,
                         "What to learn: builtin (a text inside this program), shakespeare, a UTF-8 text "
                         "file, or a folder with train.bin and val.bin. A resumed run needs the same "
                         "content, wherever it lies."));
  options.push_back(text("out_dir", s, &Recipe::out_dir, {}, OnResume::kFree,
                         "Folder of the run: metrics.jsonl and checkpoints. Default out-RECIPE. A folder "
                         "with something in it is only used with --resume."));
  options.push_back(text("init_from", s, &Recipe::init_from, {"scratch", "resume"}, OnResume::kFree,
                         "scratch starts with random weights; resume is nanoGPT's way to say --resume."));
  options.push_back(number("eval_interval", s, &Recipe::eval_interval, 0, kStepsMax, OnResume::kFree,
                           "Steps between evaluations; 0 evaluates only at the end. Often shows the curve "
                           "finely and costs time: the share is printed."));
  options.push_back(number("eval_iters", s, &Recipe::eval_iters, 1, 1e6, OnResume::kFree,
                           "Batches of batch_size rows for each of the two splits in an evaluation on the "
                           "way. The same rows every time, so that few are enough to compare. The last "
                           "evaluation of a run always reads the whole validation set."));
  options.push_back(flag("eval_at_start", s, &Recipe::eval_at_start, OnResume::kFree,
                         "Evaluate before the first step too. The loss is then close to ln(vocab_size); a "
                         "much higher one means broken weights or data."));
  options.push_back(flag("eval_only", s, &Recipe::eval_only, OnResume::kFree,
                         "Evaluate the whole validation set once and stop; with --resume, of the newest "
                         "checkpoint."));
  options.push_back(number("log_interval", s, &Recipe::log_interval, 1, kStepsMax, OnResume::kFree,
                           "Steps between updates of the display. metrics.jsonl has every step anyway."));
  options.push_back(number("checkpoint_interval", s, &Recipe::checkpoint_interval, 0, kStepsMax,
                           OnResume::kFree,
                           "Steps between checkpoints; 0 saves only at the end and when interrupted. Rare "
                           "loses more when the machine dies; often costs writing time and disk wear."));
  options.push_back(number("checkpoint_minutes", s, &Recipe::checkpoint_minutes, 0, 1e6, OnResume::kFree,
                           "Also saves when so many minutes have passed since the last checkpoint; 0 never "
                           "does. What it costs and loses is as for checkpoint_interval, but in time."));
  options.push_back(number("keep_checkpoints", s, &Recipe::keep_checkpoints, 1, 1000000, OnResume::kFree,
                           "Newest checkpoints that stay on disk. With 1 nothing is left to go back to if "
                           "the newest is damaged later; each takes 12 bytes per parameter."));
  options.push_back(text("dtype", s, &Recipe::dtype, {"fp32", "bf16"}, OnResume::kChanges,
                         "Numbers that matrix products read. bf16 is faster on CPUs with AVX512-BF16 or "
                         "AMX and slower on all others; sums, weights and updates stay fp32."));
  options.push_back(text("device_type", s, &Recipe::device_type, {"auto", "cpu", "cuda"}, OnResume::kFree,
                         "auto and cpu use the processor. cuda is refused: this version has no GPU code."));
  options.push_back(number("threads", s, &Recipe::threads, 0, kThreadsMax, OnResume::kFree,
                           "Threads that compute; 0 takes OMP_NUM_THREADS or else the physical cores this "
                           "process may use. More than there are slow each other down. The result does not "
                           "depend on it."));
}

}  // namespace

std::span<const RecipeOption> recipe_options() {
  static const std::vector<RecipeOption> options = [] {
    std::vector<RecipeOption> made;
    add_model_options(made);
    add_training_options(made);
    add_run_options(made);
    return made;
  }();
  return options;
}

}  // namespace lockstep
