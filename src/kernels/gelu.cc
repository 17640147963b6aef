#include "kernels/gelu.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gelu.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/gelu-inl.h"
// clang-format on
#include "kernels/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

template <class Form, class D, class Access>
HWY_INLINE void forward_at(D d, const Access& access, float* pre, const float* bias, float* act) {
  auto x = access.load(d, pre);
  if (bias != nullptr) {
    x = hn::Add(x, access.load(d, bias));
    access.store(x, d, pre);
  }
  hn::Vec<D> value, derivative;
  Form::evaluate(d, x, value, derivative);
  access.store(value, d, act);
}

template <class Form>
HWY_INLINE void forward_row(float* pre, const float* bias, int64_t n, float* act) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    forward_at<Form>(d, FullAccess(), pre + c, bias != nullptr ? bias + c : nullptr, act + c);
  }
  if (c < n) {
    forward_at<Form>(d, PartialAccess{n - c}, pre + c, bias != nullptr ? bias + c : nullptr, act + c);
  }
}

template <class Form, class D, class Access>
HWY_INLINE void backward_at(D d, const Access& access, const float* pre, float* dact, float* act) {
  hn::Vec<D> value, derivative;
  Form::evaluate(d, access.load(d, pre), value, derivative);
  access.store(hn::Mul(access.load(d, dact), derivative), d, dact);
  if (act != nullptr) access.store(value, d, act);
}

template <class Form>
HWY_INLINE void backward_row(const float* pre, int64_t n, float* dact, float* act) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    backward_at<Form>(d, FullAccess(), pre + c, dact + c, act != nullptr ? act + c : nullptr);
  }
  if (c < n) {
    backward_at<Form>(d, PartialAccess{n - c}, pre + c, dact + c, act != nullptr ? act + c : nullptr);
  }
}

void forward_rows(Gelu kind, float* pre, const float* bias, int64_t ld, int64_t rows, int64_t cols,
                  float* act) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * ld;
    if (kind == Gelu::kErf) {
      forward_row<GeluErf>(pre + at, bias, cols, act + at);
    } else {
      forward_row<GeluTanh>(pre + at, bias, cols, act + at);
    }
  }
}

void backward_rows(Gelu kind, const float* pre, int64_t ld, int64_t rows, int64_t cols, float* dact,
                   float* act) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * ld;
    float* act_row = act != nullptr ? act + at : nullptr;
    if (kind == Gelu::kErf) {
      backward_row<GeluErf>(pre + at, cols, dact + at, act_row);
    } else {
      backward_row<GeluTanh>(pre + at, cols, dact + at, act_row);
    }
  }
}

void bias_rows(float* x, const float* bias, int64_t ld, int64_t rows, int64_t cols) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  for (int64_t row = 0; row < rows; ++row) {
    float* xr = x + row * ld;
    int64_t c = 0;
    for (; c + lanes <= cols; c += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, xr + c), hn::LoadU(d, bias + c)), d, xr + c);
    }
    if (c < cols) {
      const PartialAccess access{cols - c};
      access.store(hn::Add(access.load(d, xr + c), access.load(d, bias + c)), d, xr + c);
    }
  }
}

// Adds rows 0..3 of src to sum, one after the other: four rows per visit to the sum.
template <class D, class Access>
HWY_INLINE void add_four_rows(D d, const Access& access, const float* src, int64_t ld, float* sum) {
  auto s = hn::Add(access.load(d, sum), access.load(d, src));
  s = hn::Add(s, access.load(d, src + ld));
  s = hn::Add(s, access.load(d, src + 2 * ld));
  s = hn::Add(s, access.load(d, src + 3 * ld));
  access.store(s, d, sum);
}

// sum[c] = sum over rows of dy[row, c], in row order.
void sum_block(const float* dy, int64_t rows, int64_t cols, int64_t ld, float* sum) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  std::fill(sum, sum + cols, 0.0f);
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const float* src = dy + row * ld;
    int64_t c = 0;
    for (; c + lanes <= cols; c += lanes) add_four_rows(d, FullAccess(), src + c, ld, sum + c);
    if (c < cols) add_four_rows(d, PartialAccess{cols - c}, src + c, ld, sum + c);
  }
  if (row < rows) fold_rows(d, dy + row * ld, rows - row, ld, cols, true, sum);
}

void fold_blocks(const float* sums, int64_t blocks, int64_t stride, int64_t cols, bool keep, float* out) {
  fold_rows(FloatTag(), sums, blocks, stride, cols, keep, out);
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(forward_rows);
HWY_EXPORT(backward_rows);
HWY_EXPORT(bias_rows);
HWY_EXPORT(sum_block);
HWY_EXPORT(fold_blocks);
namespace {
// A piece of column_sum is kSumRows rows by kSumColumns columns: 128 KB read once, in runs of 2 KB.
constexpr int64_t kSumRows = 64, kSumColumns = 512;
}  // namespace

void bias_gelu_forward_tile(Gelu kind, float* pre, const float* bias, int64_t ld, const Tile& tile,
                            float* act) {
  const int64_t at = tile.row * ld + tile.col;
  const float* tile_bias = bias != nullptr ? bias + tile.col : nullptr;
  HWY_DYNAMIC_DISPATCH(forward_rows)(kind, pre + at, tile_bias, ld, tile.rows, tile.cols, act + at);
}

void gelu_backward_tile(Gelu kind, const float* pre, int64_t ld, const Tile& tile, float* dact_to_dpre,
                        float* act) {
  const int64_t at = tile.row * ld + tile.col;
  float* tile_act = act != nullptr ? act + at : nullptr;
  HWY_DYNAMIC_DISPATCH(backward_rows)
  (kind, pre + at, ld, tile.rows, tile.cols, dact_to_dpre + at, tile_act);
}

void gelu_forward(Gelu kind, const float* pre, int64_t n, float* act) {
  const auto rows = HWY_DYNAMIC_DISPATCH(forward_rows);
  parallel_ranges(n, kPieceBytes / 8, [&](int64_t begin, int64_t end) {
    // Without a bias the kernel only reads `pre`.
    rows(kind, const_cast<float*>(pre) + begin, nullptr, 0, 1, end - begin, act + begin);
  });
}

void bias_tile(float* x, const float* bias, int64_t ld, const Tile& tile) {
  HWY_DYNAMIC_DISPATCH(bias_rows)
  (x + tile.row * ld + tile.col, bias + tile.col, ld, tile.rows, tile.cols);
}

int64_t column_sum_workspace(int64_t rows, int64_t cols) {
  return std::max<int64_t>(1, piece_count(rows, kSumRows) * cols);
}

void column_sum(const float* dy, int64_t rows, int64_t cols, float beta, float* db, float* workspace) {
  const int64_t blocks = piece_count(rows, kSumRows);
  const int64_t strips = piece_count(cols, kSumColumns);
  const auto sum = HWY_DYNAMIC_DISPATCH(sum_block);
  parallel_pieces(blocks * strips, [&](int64_t piece) {
    const int64_t row = piece / strips * kSumRows;
    const int64_t col = piece % strips * kSumColumns;
    sum(dy + row * cols + col, std::min(kSumRows, rows - row), std::min(kSumColumns, cols - col), cols,
        workspace + piece / strips * cols + col);
  });
  const auto fold = HWY_DYNAMIC_DISPATCH(fold_blocks);
  parallel_ranges(cols, rows_per_piece(4 * (blocks + 2)), [&](int64_t begin, int64_t end) {
    fold(workspace + begin, blocks, cols, end - begin, beta != 0.0f, db + begin);
  });
}

}  // namespace lockstep::kernels
#endif
