#include "kernels/embedding.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/dropout-inl.h"
// clang-format on
#include "kernels/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// out = a + b over n elements; out may equal a or b.
HWY_INLINE void add_row(const float* a, const float* b, int64_t n, float* out) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, a + c), hn::LoadU(d, b + c)), d, out + c);
  }
  if (c < n) {
    const PartialAccess access{n - c};
    access.store(hn::Add(access.load(d, a + c), access.load(d, b + c)), d, out + c);
  }
}

// Rows [begin, end) of (B * T, C).
void embed_rows(const int32_t* tokens, const float* wte, const float* wpe, int64_t begin, int64_t end,
                int64_t T, int64_t C, const DropoutKey& key, float* out) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t t = row % T;
    float* y = out + row * C;
    add_row(wte + int64_t{tokens[row]} * C, wpe + t * C, C, y);
    if (key.p > 0.0f) {
      const auto stream = make_dropout_stream(key, row / T);
      dropout_row(FloatTag(), stream, static_cast<uint64_t>(t * C), C, y, y);
    }
  }
}

// Columns [col, col + cols) of all rows: the caller's piece owns these columns of dwte.
void scatter_columns(const int32_t* tokens, const float* dout, int64_t rows, int64_t C, int64_t col,
                     int64_t cols, float* dwte) {
  for (int64_t row = 0; row < rows; ++row) {
    float* dst = dwte + int64_t{tokens[row]} * C + col;
    add_row(dst, dout + row * C + col, cols, dst);
  }
}

// Rows [begin, end) of dwpe, t < T.
void fold_positions(const float* dout, int64_t begin, int64_t end, int64_t B, int64_t T, int64_t C, bool keep,
                    float* dwpe) {
  for (int64_t t = begin; t < end; ++t) {
    fold_rows(FloatTag(), dout + t * C, B, T * C, C, keep, dwpe + t * C);
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(embed_rows);
HWY_EXPORT(scatter_columns);
HWY_EXPORT(fold_positions);

void embedding_forward(const int32_t* tokens, const float* wte, const float* wpe, int64_t B, int64_t T,
                       int64_t C, const DropoutKey& key, float* out) {
  const auto embed = HWY_DYNAMIC_DISPATCH(embed_rows);
  parallel_ranges(B * T, rows_per_piece(C * 12),
                  [&](int64_t begin, int64_t end) { embed(tokens, wte, wpe, begin, end, T, C, key, out); });
}

void embedding_backward(const int32_t* tokens, const float* dout, int64_t B, int64_t T, int64_t C,
                        float* dwte, float beta, float* dwpe, int64_t wpe_rows) {
  const bool keep = beta != 0.0f;
  // dwte: a piece owns a strip of columns and walks all rows in order, so equal tokens never meet across
  // threads. Four cache lines per row keep the strips parallel and the reads long enough.
  constexpr int64_t kColumns = 64;
  const int64_t strips = piece_count(C, kColumns);
  const int64_t rows_each = rows_per_piece((B + 1) * C * 4);
  const int64_t position_pieces = piece_count(T, rows_each);
  const auto scatter = HWY_DYNAMIC_DISPATCH(scatter_columns);
  const auto fold = HWY_DYNAMIC_DISPATCH(fold_positions);
  parallel_pieces(strips + position_pieces, [&](int64_t piece) {
    if (piece < strips) {
      const int64_t col = piece * kColumns;
      scatter(tokens, dout, B * T, C, col, std::min(kColumns, C - col), dwte);
    } else {
      const int64_t begin = (piece - strips) * rows_each;
      fold(dout, begin, std::min(T, begin + rows_each), B, T, C, keep, dwpe);
    }
  });
  if (!keep && wpe_rows > T) {
    std::memset(dwpe + T * C, 0, static_cast<size_t>((wpe_rows - T) * C) * sizeof(float));
  }
}

}  // namespace lockstep::kernels
#endif
