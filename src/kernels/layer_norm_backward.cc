#include <algorithm>

#include "kernels/layer_norm.h"

#ifndef LOCKSTEP_KERNELS_LAYER_NORM_BACKWARD_CC_ONCE_
#define LOCKSTEP_KERNELS_LAYER_NORM_BACKWARD_CC_ONCE_
namespace lockstep::kernels {
namespace {
// Rows whose column sums are taken together: the sums of the blocks are then added in order.
constexpr int64_t kBlockRows = 32;

// What layer_norm_backward was called with.
struct NormBackward {
  const float *dy, *x, *mean, *rstd, *w, *b;
  int64_t C;
  bool keep_dx;
  float *dx, *y;
};
}  // namespace
}  // namespace lockstep::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm_backward.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"
// clang-format on
#include "kernels/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// One row's constants: dx = rstd (dy w - a - xhat s), where a and s are the means over c of dy w and
// dy w xhat.
struct RowTerms {
  float mean, rstd, a, s;
};

template <class D, class Access>
HWY_INLINE void add_row_terms(D d, const Access& access, const float* dy, const float* x, const float* w,
                              hn::Vec<D> mu, hn::Vec<D>& s1, hn::Vec<D>& s2) {
  const auto g = hn::Mul(access.load(d, dy), access.load(d, w));
  s1 = hn::Add(s1, g);
  s2 = hn::MulAdd(g, hn::Sub(access.load(d, x), mu), s2);
}

HWY_INLINE RowTerms row_terms(const NormBackward& args, int64_t row) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d), n = args.C;
  const float *dy = args.dy + row * n, *x = args.x + row * n, *w = args.w;
  const auto mu = hn::Set(d, args.mean[row]);
  auto a1 = hn::Zero(d), a2 = hn::Zero(d), b1 = hn::Zero(d), b2 = hn::Zero(d);
  int64_t c = 0;
  for (; c + 2 * lanes <= n; c += 2 * lanes) {
    add_row_terms(d, FullAccess(), dy + c, x + c, w + c, mu, a1, a2);
    add_row_terms(d, FullAccess(), dy + c + lanes, x + c + lanes, w + c + lanes, mu, b1, b2);
  }
  for (; c + lanes <= n; c += lanes) add_row_terms(d, FullAccess(), dy + c, x + c, w + c, mu, a1, a2);
  // The missing lanes have dy = 0 and add nothing.
  if (c < n) add_row_terms(d, PartialAccess{n - c}, dy + c, x + c, w + c, mu, b1, b2);
  const float inverse_width = 1.0f / static_cast<float>(n);
  const float rstd = args.rstd[row];
  return {args.mean[row], rstd, reduce_sum(d, hn::Add(a1, b1)) * inverse_width,
          reduce_sum(d, hn::Add(a2, b2)) * rstd * inverse_width};
}

// dx, y and the contributions to dw and db of one vector of one row.
template <bool kKeep, bool kWriteY, class D, class Access>
HWY_INLINE void row_gradient(D d, const Access& access, const NormBackward& args, int64_t at,
                             const RowTerms& terms, hn::Vec<D> w, hn::Vec<D> b, hn::Vec<D>& dw,
                             hn::Vec<D>& db) {
  const auto g = access.load(d, args.dy + at);
  const auto r = hn::Set(d, terms.rstd);
  const auto xhat = hn::Mul(hn::Sub(access.load(d, args.x + at), hn::Set(d, terms.mean)), r);
  dw = hn::MulAdd(g, xhat, dw);
  db = hn::Add(db, g);
  if constexpr (kWriteY) access.store(hn::MulAdd(xhat, w, b), d, args.y + at);
  const auto centred = hn::Sub(hn::Mul(g, w), hn::Set(d, terms.a));
  const auto inner = hn::NegMulAdd(xhat, hn::Set(d, terms.s), centred);
  if constexpr (kKeep) {
    access.store(hn::MulAdd(inner, r, access.load(d, args.dx + at)), d, args.dx + at);
  } else {
    access.store(hn::Mul(inner, r), d, args.dx + at);
  }
}

// Four rows per visit to w, b, dw and db. Accumulators are named: GCC spills arrays of vectors.
template <bool kKeep, bool kWriteY, class D, class Access>
HWY_INLINE void four_rows_at(D d, const Access& access, const NormBackward& args, int64_t row, int64_t c,
                             const RowTerms (&terms)[4], float* dw_sum, float* db_sum) {
  const int64_t C = args.C, at = row * C + c;
  const auto w = access.load(d, args.w + c);
  const auto b = args.b != nullptr ? access.load(d, args.b + c) : hn::Zero(d);
  auto dw = access.load(d, dw_sum + c);
  auto db = access.load(d, db_sum + c);
  row_gradient<kKeep, kWriteY>(d, access, args, at, terms[0], w, b, dw, db);
  row_gradient<kKeep, kWriteY>(d, access, args, at + C, terms[1], w, b, dw, db);
  row_gradient<kKeep, kWriteY>(d, access, args, at + 2 * C, terms[2], w, b, dw, db);
  row_gradient<kKeep, kWriteY>(d, access, args, at + 3 * C, terms[3], w, b, dw, db);
  access.store(dw, d, dw_sum + c);
  access.store(db, d, db_sum + c);
}

template <bool kKeep, bool kWriteY, class D, class Access>
HWY_INLINE void one_row_at(D d, const Access& access, const NormBackward& args, int64_t row, int64_t c,
                           const RowTerms& terms, float* dw_sum, float* db_sum) {
  const auto w = access.load(d, args.w + c);
  const auto b = args.b != nullptr ? access.load(d, args.b + c) : hn::Zero(d);
  auto dw = access.load(d, dw_sum + c);
  auto db = access.load(d, db_sum + c);
  row_gradient<kKeep, kWriteY>(d, access, args, row * args.C + c, terms, w, b, dw, db);
  access.store(dw, d, dw_sum + c);
  access.store(db, d, db_sum + c);
}

template <bool kKeep, bool kWriteY>
HWY_INLINE void backward_block(const NormBackward& args, int64_t begin, int64_t end, float* dw_sum,
                               float* db_sum) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d), C = args.C;
  std::fill(dw_sum, dw_sum + C, 0.0f);
  std::fill(db_sum, db_sum + C, 0.0f);
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) {
    const RowTerms terms[4] = {row_terms(args, row), row_terms(args, row + 1), row_terms(args, row + 2),
                               row_terms(args, row + 3)};
    int64_t c = 0;
    for (; c + lanes <= C; c += lanes) {
      four_rows_at<kKeep, kWriteY>(d, FullAccess(), args, row, c, terms, dw_sum, db_sum);
    }
    if (c < C) four_rows_at<kKeep, kWriteY>(d, PartialAccess{C - c}, args, row, c, terms, dw_sum, db_sum);
  }
  for (; row < end; ++row) {
    const RowTerms terms = row_terms(args, row);
    int64_t c = 0;
    for (; c + lanes <= C; c += lanes) {
      one_row_at<kKeep, kWriteY>(d, FullAccess(), args, row, c, terms, dw_sum, db_sum);
    }
    if (c < C) one_row_at<kKeep, kWriteY>(d, PartialAccess{C - c}, args, row, c, terms, dw_sum, db_sum);
  }
}

void norm_backward_block(const NormBackward& args, int64_t begin, int64_t end, float* dw_sum, float* db_sum) {
  if (args.keep_dx) {
    if (args.y != nullptr) {
      backward_block<true, true>(args, begin, end, dw_sum, db_sum);
    } else {
      backward_block<true, false>(args, begin, end, dw_sum, db_sum);
    }
  } else if (args.y != nullptr) {
    backward_block<false, true>(args, begin, end, dw_sum, db_sum);
  } else {
    backward_block<false, false>(args, begin, end, dw_sum, db_sum);
  }
}

void fold_norm_blocks(const float* sums, int64_t blocks, int64_t stride, int64_t n, bool keep, float* out) {
  fold_rows(FloatTag(), sums, blocks, stride, n, keep, out);
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(norm_backward_block);
HWY_EXPORT(fold_norm_blocks);

int64_t layer_norm_backward_workspace(int64_t rows, int64_t C) {
  return std::max<int64_t>(1, piece_count(rows, kBlockRows)) * 2 * C;
}

void layer_norm_backward(const float* dy, const float* x, const float* mean, const float* rstd,
                         const float* w, const float* b, int64_t rows, int64_t C, float dx_beta, float* dx,
                         float grad_beta, float* dw, float* db, float* y, float* workspace) {
  // workspace: (blocks, 2, C), per block the sums for dw, then for db.
  const NormBackward args{dy, x, mean, rstd, w, b, C, dx_beta != 0.0f, dx, y};
  const int64_t blocks = piece_count(rows, kBlockRows);
  const auto block = HWY_DYNAMIC_DISPATCH(norm_backward_block);
  parallel_pieces(blocks, [&](int64_t i) {
    float* sums = workspace + i * 2 * C;
    block(args, i * kBlockRows, std::min(rows, (i + 1) * kBlockRows), sums, sums + C);
  });
  const auto fold = HWY_DYNAMIC_DISPATCH(fold_norm_blocks);
  const bool keep = grad_beta != 0.0f;
  parallel_ranges(C, rows_per_piece(8 * (blocks + 2)), [&](int64_t begin, int64_t end) {
    fold(workspace + begin, blocks, 2 * C, end - begin, keep, dw + begin);
    if (db != nullptr) fold(workspace + C + begin, blocks, 2 * C, end - begin, keep, db + begin);
  });
}

}  // namespace lockstep::kernels
#endif
