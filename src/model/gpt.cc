#include "model/gpt.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"
#include "kernels/threads.h"
#include "model/layer_offsets.h"
#include "model/linear.h"
#include "tensor/buffer.h"

namespace lockstep {
namespace {

using kernels::DropoutKey;
using kernels::Tile;
using kernels::TileEpilogue;

// Dropout sites: 0 the embedding, then three per layer.
constexpr uint32_t kEmbeddingSite = 0;
uint32_t attention_site(int64_t layer) {
  return static_cast<uint32_t>(3 * layer + 1);
}
uint32_t attention_residual_site(int64_t layer) {
  return static_cast<uint32_t>(3 * layer + 2);
}
uint32_t mlp_residual_site(int64_t layer) {
  return static_cast<uint32_t>(3 * layer + 3);
}

/// What one layer keeps from forward to backward. N = B * T tokens.
struct LayerActivations {
  float* residual_in = nullptr;   // (N, C) input of ln_1
  float* mean1 = nullptr;         // (N)
  float* rstd1 = nullptr;         // (N)
  float* qkv = nullptr;           // (N, 3C) query | key | value
  float* attention = nullptr;     // (N, C)
  float* lse = nullptr;           // (B, H, T)
  float* residual_mid = nullptr;  // (N, C) input of ln_2
  float* mean2 = nullptr;         // (N)
  float* rstd2 = nullptr;         // (N)
  float* mlp_pre = nullptr;       // (N, 4C) before GELU
};

struct Activations {
  std::vector<LayerActivations> layers;
  float* residual_out = nullptr;  // (N, C) input of ln_f
  float* meanf = nullptr;
  float* rstdf = nullptr;
};

struct Scratch {
  float* norm = nullptr;       // (N, C) output of the layer norm at hand
  float* act = nullptr;        // (N, 4C) GELU values
  float* branch = nullptr;     // (N, C) output of a residual branch; gradient of a norm's output
  float* dresidual = nullptr;  // (N, C) gradient of the residual stream
  float* dropped = nullptr;    // (N, C) its copy through a dropout mask
  float* wide = nullptr;       // (N, 4C) gradients of the MLP's pre-activation, of qkv
  float* logits = nullptr;     // (chunk, V)
  float* losses = nullptr;     // (N)
  float* sums = nullptr;       // column sums and norm gradients in blocks
  float* attention = nullptr;  // attention's own
};

/// Rows of logits that exist at one time. The tied head is read once per chunk and pass, and its gradient
/// read and written, so chunks are as large as 100 MB allow, and not below 128 rows, where packing the head
/// dominates.
int64_t loss_chunk_rows(int64_t vocab, int64_t tokens) {
  constexpr int64_t kLogitsMax = 100'000'000 / sizeof(float);
  constexpr int64_t kRowsMin = 128;
  const int64_t rows = std::max(kRowsMin, kLogitsMax / vocab);
  const int64_t chunks = (tokens + rows - 1) / rows;
  return (tokens + chunks - 1) / chunks;
}

struct BiasGelu {
  kernels::Gelu kind;
  float* pre;
  const float* bias;
  int64_t ld;
  float* act;
  static void run(const void* context, const Tile& tile) {
    const auto& self = *static_cast<const BiasGelu*>(context);
    kernels::bias_gelu_forward_tile(self.kind, self.pre, self.bias, self.ld, tile, self.act);
  }
};

struct GeluBackward {
  kernels::Gelu kind;
  const float* pre;
  int64_t ld;
  float* gradient;
  float* act;
  static void run(const void* context, const Tile& tile) {
    const auto& self = *static_cast<const GeluBackward*>(context);
    kernels::gelu_backward_tile(self.kind, self.pre, self.ld, tile, self.gradient, self.act);
  }
};

struct AddBias {
  float* y;
  const float* bias;
  int64_t ld;
  static void run(const void* context, const Tile& tile) {
    const auto& self = *static_cast<const AddBias*>(context);
    kernels::bias_tile(self.y, self.bias, self.ld, tile);
  }
};

}  // namespace

struct Gpt::Impl {
  Impl(const GptConfig& config_in, ComputeType compute_in, int64_t max_batch_in, int64_t max_time_in,
       bool training_in, bool allocate)
      : config(config_in),
        compute(compute_in),
        max_batch(max_batch_in),
        max_time(max_time_in),
        training(training_in),
        registry(config_in),
        offsets(registry, config_in),
        chunk_rows(loss_chunk_rows(config_in.vocab_size, max_batch_in * max_time_in)) {
    LOCKSTEP_CHECK(max_batch >= 1 && max_time >= 1 && max_time <= config.block_size);
    Arena counting;
    memory = lay_out(counting);
    if (!allocate) return;
    buffer = Buffer(memory.activation_bytes + memory.scratch_bytes);
    Arena arena(buffer);
    lay_out(arena);
  }

  GptMemory lay_out(Arena& arena);
  void check(const Batch& batch) const {
    LOCKSTEP_CHECK(batch.B >= 1 && batch.B <= max_batch && batch.T >= 1 && batch.T <= max_time &&
                   batch.B * batch.T <= max_batch * max_time)
        << "batch (" << batch.B << ", " << batch.T << ") planned for (" << max_batch << ", " << max_time
        << ")";
  }
  DropoutKey key(const Batch& batch, const DropoutContext* dropout, uint32_t site) const {
    if (dropout == nullptr || config.dropout == 0.0f) return {};
    return {.p = config.dropout,
            .seed = dropout->seed,
            .step = dropout->step,
            .site = site,
            .slots = batch.slots};
  }
  const float* bias(const float* params, int64_t offset) const {
    return config.bias ? params + offset : nullptr;
  }
  float* bias(float* params, int64_t offset) const { return config.bias ? params + offset : nullptr; }

  /// Up to ln_f's output in scratch.norm.
  void forward(const Batch& batch, const DropoutContext* dropout, const float* params);
  void forward_layer(const Batch& batch, const DropoutContext* dropout, const float* params, int64_t layer);
  /// Loss from scratch.norm; with grads also its gradient, in scratch.dresidual (of ln_f's output) and in
  /// wte's.
  LossSums head(const Batch& batch, const float* params, float beta, float* grads);
  void backward(const Batch& batch, const DropoutContext& dropout, const float* params, float beta,
                float* grads);
  void backward_mlp(const Batch& batch, const DropoutContext& dropout, const float* params, int64_t layer,
                    float beta, float* grads);
  void backward_attention(const Batch& batch, const DropoutContext& dropout, const float* params,
                          int64_t layer, float beta, float* grads);
  /// The residual gradient as the branch sees it: itself, or a copy through the branch's dropout.
  const float* branch_gradient(const Batch& batch, const DropoutContext& dropout, uint32_t site);

  GptConfig config;
  ComputeType compute;
  int64_t max_batch, max_time;
  bool training;
  ParameterRegistry registry;
  LayerOffsets offsets;
  int64_t chunk_rows;  // of logits at one time
  GptMemory memory;
  Buffer buffer;
  Activations acts;
  Scratch scratch;
  std::unique_ptr<LinearOps> linear;
};

GptMemory Gpt::Impl::lay_out(Arena& arena) {
  const int64_t N = max_batch * max_time, C = config.n_embd, H = config.n_head, V = config.vocab_size;
  GptMemory planned;
  // Without a backward pass nothing is kept: all layers use the buffers of one.
  acts.layers.assign(static_cast<size_t>(config.n_layer), {});
  for (size_t l = 0; l < acts.layers.size(); ++l) {
    LayerActivations& a = acts.layers[l];
    if (!training && l > 0) {
      a = acts.layers[0];
      continue;
    }
    a.residual_in = arena.take<float>(N * C);
    a.mean1 = arena.take<float>(N);
    a.rstd1 = arena.take<float>(N);
    a.qkv = arena.take<float>(N * 3 * C);
    a.attention = arena.take<float>(N * C);
    a.lse = arena.take<float>(N * H);
    a.residual_mid = training ? arena.take<float>(N * C) : a.residual_in;
    a.mean2 = arena.take<float>(N);
    a.rstd2 = arena.take<float>(N);
    a.mlp_pre = training ? arena.take<float>(N * 4 * C) : nullptr;
  }
  acts.residual_out = training ? arena.take<float>(N * C) : acts.layers[0].residual_in;
  acts.meanf = arena.take<float>(N);
  acts.rstdf = arena.take<float>(N);
  planned.activation_bytes = arena.used_bytes();

  const kernels::AttentionShape attention{max_batch, max_time, H, config.head_size()};
  scratch.norm = arena.take<float>(N * C);
  scratch.act = arena.take<float>(N * 4 * C);
  scratch.branch = arena.take<float>(N * C);
  scratch.losses = arena.take<float>(N);
  scratch.logits = arena.take<float>(chunk_rows * V);
  scratch.attention = arena.take<float>(kernels::attention_workspace(attention, kernels::thread_count()));
  if (training) {
    scratch.dresidual = arena.take<float>(N * C);
    if (config.dropout > 0.0f) scratch.dropped = arena.take<float>(N * C);
    scratch.wide = arena.take<float>(N * 4 * C);
    scratch.sums = arena.take<float>(
        std::max(kernels::layer_norm_backward_workspace(N, C), kernels::column_sum_workspace(N, 4 * C)));
  }
  linear = std::make_unique<LinearOps>(compute, registry.flat_count(), N * 4 * C,
                                       std::max(N * 4 * C, chunk_rows * V), arena);
  planned.scratch_bytes = arena.used_bytes() - planned.activation_bytes;
  return planned;
}

void Gpt::Impl::forward(const Batch& batch, const DropoutContext* dropout, const float* params) {
  check(batch);
  const int64_t N = batch.B * batch.T, C = config.n_embd;
  const LayerActivations& first = acts.layers[0];
  kernels::embedding_forward(batch.x, params + offsets.wte, params + offsets.wpe, batch.B, batch.T, C,
                             key(batch, dropout, kEmbeddingSite), first.residual_in);
  const LayerOffsets::Layer& o = offsets.layers[0];
  kernels::layer_norm_forward(first.residual_in, params + o.ln1_w, bias(params, o.ln1_b), N, C,
                              kLayerNormEpsilon, scratch.norm, first.mean1, first.rstd1);
  for (int64_t layer = 0; layer < config.n_layer; ++layer) forward_layer(batch, dropout, params, layer);
}

void Gpt::Impl::forward_layer(const Batch& batch, const DropoutContext* dropout, const float* params,
                              int64_t layer) {
  const int64_t N = batch.B * batch.T, C = config.n_embd;
  const auto index = static_cast<size_t>(layer);
  const LayerActivations& a = acts.layers[index];
  const LayerOffsets::Layer& o = offsets.layers[index];
  const kernels::AttentionShape shape{batch.B, batch.T, config.n_head, config.head_size()};

  const AddBias qkv_bias{a.qkv, bias(params, o.qkv_b), 3 * C};
  linear->forward(scratch.norm, N, C, params, o.qkv_w, 3 * C, a.qkv,
                  config.bias ? TileEpilogue{AddBias::run, &qkv_bias} : TileEpilogue{});
  kernels::causal_attention_forward(shape, a.qkv, key(batch, dropout, attention_site(layer)), a.attention,
                                    a.lse, scratch.attention);
  linear->forward(a.attention, N, C, params, o.proj_w, C, scratch.branch);
  kernels::residual_layer_norm_forward(a.residual_in, scratch.branch, bias(params, o.proj_b),
                                       params + o.ln2_w, bias(params, o.ln2_b), N, C, kLayerNormEpsilon,
                                       key(batch, dropout, attention_residual_site(layer)), batch.T,
                                       a.residual_mid, scratch.norm, a.mean2, a.rstd2);

  float* pre = training ? a.mlp_pre : scratch.act;
  const BiasGelu gelu{config.gelu, pre, bias(params, o.fc_b), 4 * C, scratch.act};
  linear->forward(scratch.norm, N, C, params, o.fc_w, 4 * C, pre, {BiasGelu::run, &gelu});
  linear->forward(scratch.act, N, 4 * C, params, o.mlp_w, C, scratch.branch);

  const bool last = layer + 1 == config.n_layer;
  const LayerActivations* next = last ? nullptr : &acts.layers[index + 1];
  const int64_t norm_w = last ? offsets.lnf_w : offsets.layers[index + 1].ln1_w;
  const int64_t norm_b = last ? offsets.lnf_b : offsets.layers[index + 1].ln1_b;
  kernels::residual_layer_norm_forward(a.residual_mid, scratch.branch, bias(params, o.mlp_b), params + norm_w,
                                       bias(params, norm_b), N, C, kLayerNormEpsilon,
                                       key(batch, dropout, mlp_residual_site(layer)), batch.T,
                                       last ? acts.residual_out : next->residual_in, scratch.norm,
                                       last ? acts.meanf : next->mean1, last ? acts.rstdf : next->rstd1);
}

LossSums Gpt::Impl::head(const Batch& batch, const float* params, float beta, float* grads) {
  const int64_t N = batch.B * batch.T, C = config.n_embd, V = config.vocab_size;
  for (int64_t row = 0; row < N; row += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, N - row);
    const float* x = scratch.norm + row * C;
    linear->forward(x, rows, C, params, offsets.wte, V, scratch.logits);
    if (grads == nullptr) {
      kernels::cross_entropy_forward(scratch.logits, rows, V, V, batch.y + row, scratch.losses + row);
      continue;
    }
    kernels::cross_entropy_forward_backward(scratch.logits, rows, V, V, batch.y + row, 1.0f,
                                            scratch.losses + row);
    linear->backward_input(scratch.logits, rows, V, params, offsets.wte, C, scratch.dresidual + row * C);
    linear->backward_weight(scratch.logits, x, rows, V, C, row == 0 ? beta : 1.0f, grads + offsets.wte, true);
  }
  LossSums sums;
  for (int64_t row = 0; row < N; ++row) {
    sums.loss += static_cast<double>(scratch.losses[row]);
    sums.tokens += batch.y[row] == kernels::kIgnoreTarget ? 0 : 1;
  }
  return sums;
}

const float* Gpt::Impl::branch_gradient(const Batch& batch, const DropoutContext& dropout, uint32_t site) {
  const DropoutKey dropout_key = key(batch, &dropout, site);
  if (dropout_key.p == 0.0f) return scratch.dresidual;
  kernels::dropout(scratch.dresidual, batch.B, batch.T * config.n_embd, dropout_key, scratch.dropped);
  return scratch.dropped;
}

void Gpt::Impl::backward_mlp(const Batch& batch, const DropoutContext& dropout, const float* params,
                             int64_t layer, float beta, float* grads) {
  const int64_t N = batch.B * batch.T, C = config.n_embd;
  const LayerActivations& a = acts.layers[static_cast<size_t>(layer)];
  const LayerOffsets::Layer& o = offsets.layers[static_cast<size_t>(layer)];
  const float* dy = branch_gradient(batch, dropout, mlp_residual_site(layer));  // (N, C)

  const GeluBackward gelu{config.gelu, a.mlp_pre, 4 * C, scratch.wide, scratch.act};
  linear->backward_input(dy, N, C, params, o.mlp_w, 4 * C, scratch.wide, {GeluBackward::run, &gelu});
  linear->backward_weight(dy, scratch.act, N, C, 4 * C, beta, grads + o.mlp_w, true);
  if (config.bias) kernels::column_sum(dy, N, C, beta, grads + o.mlp_b, scratch.sums);

  linear->backward_input(scratch.wide, N, 4 * C, params, o.fc_w, C, scratch.branch);
  if (config.bias) kernels::column_sum(scratch.wide, N, 4 * C, beta, grads + o.fc_b, scratch.sums);
  kernels::layer_norm_backward(scratch.branch, a.residual_mid, a.mean2, a.rstd2, params + o.ln2_w,
                               bias(params, o.ln2_b), N, C, 1.0f, scratch.dresidual, beta, grads + o.ln2_w,
                               bias(grads, o.ln2_b), scratch.norm, scratch.sums);
  linear->backward_weight(scratch.wide, scratch.norm, N, 4 * C, C, beta, grads + o.fc_w, true);
}

void Gpt::Impl::backward_attention(const Batch& batch, const DropoutContext& dropout, const float* params,
                                   int64_t layer, float beta, float* grads) {
  const int64_t N = batch.B * batch.T, C = config.n_embd;
  const LayerActivations& a = acts.layers[static_cast<size_t>(layer)];
  const LayerOffsets::Layer& o = offsets.layers[static_cast<size_t>(layer)];
  const kernels::AttentionShape shape{batch.B, batch.T, config.n_head, config.head_size()};
  const float* dy = branch_gradient(batch, dropout, attention_residual_site(layer));  // (N, C)

  linear->backward_input(dy, N, C, params, o.proj_w, C, scratch.branch);
  linear->backward_weight(dy, a.attention, N, C, C, beta, grads + o.proj_w, true);
  if (config.bias) kernels::column_sum(dy, N, C, beta, grads + o.proj_b, scratch.sums);

  kernels::causal_attention_backward(shape, a.qkv, a.attention, a.lse, scratch.branch,
                                     key(batch, &dropout, attention_site(layer)), scratch.wide,
                                     scratch.attention);
  linear->backward_input(scratch.wide, N, 3 * C, params, o.qkv_w, C, scratch.branch);
  if (config.bias) kernels::column_sum(scratch.wide, N, 3 * C, beta, grads + o.qkv_b, scratch.sums);
  kernels::layer_norm_backward(scratch.branch, a.residual_in, a.mean1, a.rstd1, params + o.ln1_w,
                               bias(params, o.ln1_b), N, C, 1.0f, scratch.dresidual, beta, grads + o.ln1_w,
                               bias(grads, o.ln1_b), scratch.norm, scratch.sums);
  linear->backward_weight(scratch.wide, scratch.norm, N, 3 * C, C, beta, grads + o.qkv_w, true);
}

void Gpt::Impl::backward(const Batch& batch, const DropoutContext& dropout, const float* params, float beta,
                         float* grads) {
  const int64_t N = batch.B * batch.T, C = config.n_embd;
  kernels::layer_norm_backward(scratch.dresidual, acts.residual_out, acts.meanf, acts.rstdf,
                               params + offsets.lnf_w, bias(params, offsets.lnf_b), N, C, 0.0f,
                               scratch.dresidual, beta, grads + offsets.lnf_w, bias(grads, offsets.lnf_b),
                               nullptr, scratch.sums);
  for (int64_t layer = config.n_layer - 1; layer >= 0; --layer) {
    backward_mlp(batch, dropout, params, layer, beta, grads);
    backward_attention(batch, dropout, params, layer, beta, grads);
  }
  const float* dx = branch_gradient(batch, dropout, kEmbeddingSite);
  kernels::embedding_backward(batch.x, dx, batch.B, batch.T, C, grads + offsets.wte, beta,
                              grads + offsets.wpe, config.block_size);
}

Gpt::Gpt(const GptConfig& config, ComputeType compute, int64_t max_batch, int64_t max_time, bool training)
    : impl_(std::make_unique<Impl>(config, compute, max_batch, max_time, training, true)) {}

Gpt::~Gpt() = default;

GptMemory Gpt::plan(const GptConfig& config, ComputeType compute, int64_t max_batch, int64_t max_time,
                    bool training) {
  return Impl(config, compute, max_batch, max_time, training, false).memory;
}

const GptConfig& Gpt::config() const {
  return impl_->config;
}
const ParameterRegistry& Gpt::parameters() const {
  return impl_->registry;
}

void Gpt::parameters_changed(const float* params) {
  impl_->linear->weights_changed(params, impl_->registry.flat_count());
}

LossSums Gpt::forward_backward(const Batch& batch, const DropoutContext& dropout, const float* params,
                               bool first, float* grads) {
  LOCKSTEP_CHECK(impl_->training);
  const float beta = first ? 0.0f : 1.0f;
  impl_->forward(batch, &dropout, params);
  const LossSums sums = impl_->head(batch, params, beta, grads);
  impl_->backward(batch, dropout, params, beta, grads);
  return sums;
}

LossSums Gpt::evaluate(const Batch& batch, const float* params) {
  impl_->forward(batch, nullptr, params);
  return impl_->head(batch, params, 0.0f, nullptr);
}

const float* Gpt::kept_activation(std::string_view name) const {
  const Activations& acts = impl_->acts;
  if (name == "embed") return acts.layers[0].residual_in;
  if (name == "ln_f") return impl_->scratch.norm;
  for (size_t layer = 0; layer < acts.layers.size(); ++layer) {
    const std::string prefix = "h." + std::to_string(layer) + ".";
    if (!name.starts_with(prefix)) continue;
    const std::string_view what = name.substr(prefix.size());
    const LayerActivations& a = acts.layers[layer];
    if (what == "qkv") return a.qkv;
    if (what == "attn") return a.attention;
    if (what == "resid_mid") return a.residual_mid;
    if (what == "fc") return a.mlp_pre;
    if (what == "resid")
      return layer + 1 < acts.layers.size() ? acts.layers[layer + 1].residual_in : acts.residual_out;
  }
  return nullptr;
}

std::vector<kernels::GemmProblem> gemm_problems(const GptConfig& config, int64_t rows, int64_t time) {
  using kernels::Transpose;
  const int64_t N = rows * time, C = config.n_embd, V = config.vocab_size;
  std::vector<kernels::GemmProblem> problems;
  const auto add_linear = [&](int64_t tokens, int64_t in, int64_t out) {
    problems.push_back({Transpose::kNo, Transpose::kYes, tokens, out, in});  // y = x W^T
    problems.push_back({Transpose::kNo, Transpose::kNo, tokens, in, out});   // dx = dy W
    problems.push_back({Transpose::kYes, Transpose::kNo, out, in, tokens});  // dW = dy^T x
  };
  add_linear(N, C, 3 * C);
  add_linear(N, C, C);
  add_linear(N, C, 4 * C);
  add_linear(N, 4 * C, C);
  add_linear(std::min(N, loss_chunk_rows(V, N)), C, V);
  return problems;
}

int64_t choose_micro_rows(const GptConfig& config, int64_t rows, int64_t time) {
  // Measured 2026-12-01 (docs/lab-log.md): wider models reach full speed with fewer tokens.
  const int64_t tokens = config.n_embd >= 512 ? 512 : 1024;
  const int64_t pieces = std::max<int64_t>(1, (rows * time + tokens - 1) / tokens);
  return std::max<int64_t>(1, (rows + pieces - 1) / pieces);
}

void Gpt::logits(const Batch& batch, const float* params, float* logits) {
  impl_->forward(batch, nullptr, params);
  const GptConfig& config = impl_->config;
  impl_->linear->forward(impl_->scratch.norm, batch.B * batch.T, config.n_embd, params, impl_->offsets.wte,
                         config.vocab_size, logits);
}

}  // namespace lockstep
