#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"
#include "model/gpt.h"
#include "model/layer_offsets.h"
#include "tensor/buffer.h"

namespace lockstep {
namespace {

/// y (B, out) = x (B, in) W^T + bias; bias may be null. B is small: generation is bound by reading W.
void apply_linear(const float* x, int64_t B, int64_t in, const float* weight, const float* bias, int64_t out,
                  float* y) {
  kernels::gemm({.transpose_b = kernels::Transpose::kYes,
                 .m = B,
                 .n = out,
                 .k = in,
                 .a = x,
                 .lda = in,
                 .b = weight,
                 .ldb = in,
                 .beta = 0.0f,
                 .c = y,
                 .ldc = out});
  if (bias != nullptr) kernels::bias_tile(y, bias, out, {0, B, 0, out});
}

}  // namespace

struct GptDecoder::Impl {
  Impl(const GptConfig& config_in, int64_t batch)
      : config(config_in), B(batch), registry(config_in), offsets(registry, config_in) {
    LOCKSTEP_CHECK_GE(B, 1);
    Arena counting;
    lay_out(counting);
    buffer = Buffer(counting.used_bytes());
    Arena arena(buffer);
    lay_out(arena);
  }

  void lay_out(Arena& arena) {
    const int64_t C = config.n_embd;
    keys.clear();
    values.clear();
    for (int64_t layer = 0; layer < config.n_layer; ++layer) {
      keys.push_back(arena.take<float>(B * C * config.block_size));
      values.push_back(arena.take<float>(B * C * config.block_size));
    }
    residual = arena.take<float>(B * C);
    norm = arena.take<float>(B * C);
    branch = arena.take<float>(B * C);
    qkv = arena.take<float>(B * 3 * C);
    wide = arena.take<float>(B * 4 * C);
    statistics = arena.take<float>(2 * B);
  }

  const float* bias(const float* params, int64_t offset) const {
    return config.bias ? params + offset : nullptr;
  }

  /// keys and values of the newest position into the cache: (B, H, block_size, D).
  void store(size_t layer) {
    const int64_t C = config.n_embd, D = config.head_size(), H = config.n_head;
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h) {
        const float* key = qkv + b * 3 * C + C + h * D;
        const int64_t at = ((b * H + h) * config.block_size + length) * D;
        std::copy_n(key, D, keys[layer] + at);
        std::copy_n(key + C, D, values[layer] + at);
      }
  }

  void layer_norm(const float* params, int64_t weight, int64_t bias_offset) {
    kernels::layer_norm_forward(residual, params + weight, bias(params, bias_offset), B, config.n_embd,
                                kLayerNormEpsilon, norm, statistics, statistics + B);
  }
  void add_branch() {
    for (int64_t i = 0; i < B * config.n_embd; ++i) residual[i] += branch[i];
  }
  void run_layer(const float* params, size_t layer);

  GptConfig config;
  int64_t B;
  ParameterRegistry registry;
  LayerOffsets offsets;
  Buffer buffer;
  std::vector<float*> keys, values;  // per layer (B, H, block_size, D)
  float* residual = nullptr;         // (B, C)
  float* norm = nullptr;             // (B, C)
  float* branch = nullptr;           // (B, C)
  float* qkv = nullptr;              // (B, 3C)
  float* wide = nullptr;             // (B, 4C)
  float* statistics = nullptr;       // (B) mean | (B) rstd
  int64_t length = 0;
};

void GptDecoder::Impl::run_layer(const float* params, size_t layer) {
  const int64_t C = config.n_embd;
  const LayerOffsets::Layer& o = offsets.layers[layer];
  layer_norm(params, o.ln1_w, o.ln1_b);
  apply_linear(norm, B, C, params + o.qkv_w, bias(params, o.qkv_b), 3 * C, qkv);
  store(layer);
  kernels::decode_attention({.B = B,
                             .H = config.n_head,
                             .D = config.head_size(),
                             .capacity = config.block_size,
                             .length = length + 1},
                            qkv, 3 * C, keys[layer], values[layer], norm, C);
  apply_linear(norm, B, C, params + o.proj_w, bias(params, o.proj_b), C, branch);
  add_branch();
  layer_norm(params, o.ln2_w, o.ln2_b);
  apply_linear(norm, B, C, params + o.fc_w, bias(params, o.fc_b), 4 * C, wide);
  kernels::gelu_forward(config.gelu, wide, B * 4 * C, wide);
  apply_linear(wide, B, 4 * C, params + o.mlp_w, bias(params, o.mlp_b), C, branch);
  add_branch();
}

GptDecoder::GptDecoder(const GptConfig& config, int64_t batch)
    : impl_(std::make_unique<Impl>(config, batch)) {}
GptDecoder::~GptDecoder() = default;

void GptDecoder::append(const int32_t* tokens, const float* params, float* logits) {
  Impl& d = *impl_;
  LOCKSTEP_CHECK_LT(d.length, d.config.block_size);
  const int64_t C = d.config.n_embd;
  kernels::embedding_forward(tokens, params + d.offsets.wte, params + d.offsets.wpe + d.length * C, d.B, 1, C,
                             {}, d.residual);
  for (size_t layer = 0; layer < d.offsets.layers.size(); ++layer) d.run_layer(params, layer);
  ++d.length;
  if (logits == nullptr) return;
  d.layer_norm(params, d.offsets.lnf_w, d.offsets.lnf_b);
  apply_linear(d.norm, d.B, C, params + d.offsets.wte, nullptr, d.config.vocab_size, logits);
}

void GptDecoder::reset() {
  impl_->length = 0;
}
int64_t GptDecoder::length() const {
  return impl_->length;
}

}  // namespace lockstep
