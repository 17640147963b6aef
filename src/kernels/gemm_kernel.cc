#include "kernels/gemm_kernel.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_kernel.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

// Registers: 2 * rows accumulators, two vectors of B and one broadcast of A. 14 rows fill the 32 registers of
// AVX-512 (31), 6 rows the 16 of the rest (15). Accumulators are only ever indexed by constants (index
// sequences, no loops): GCC 12 keeps such an array in registers and spills one that a loop walks.
#if HWY_TARGET == HWY_SCALAR
constexpr int64_t kLanes = 1;
#else
constexpr int64_t kLanes = HWY_MIN(16, HWY_MAX_BYTES / 4);
#endif
constexpr int64_t kRowsMax = kLanes == 16 ? 14 : 6;
constexpr int64_t kPackStride = kLanes == 16 ? 16 : 8;
static_assert(kRowsMax * 2 * kLanes <= kMicroTileMax);

template <bool kByRow, size_t... kRow>
HWY_INLINE void multiply_step(const float* a, int64_t a_stride, V b, V* c, std::index_sequence<kRow...>) {
  const D d;
  ((c[kRow] =
        hn::MulAdd(hn::Set(d, a[kByRow ? static_cast<int64_t>(kRow) * a_stride : static_cast<int64_t>(kRow)]),
                   b, c[kRow])),
   ...);
}

HWY_INLINE void multiply_row(float a, V b0, V b1, V& c0, V& c1) {
  const V broadcast = hn::Set(D(), a);
  c0 = hn::MulAdd(broadcast, b0, c0);
  c1 = hn::MulAdd(broadcast, b1, c1);
}

template <bool kByRow, size_t... kRow>
HWY_INLINE void multiply_step(const float* a, int64_t a_stride, V b0, V b1, V* c,
                              std::index_sequence<kRow...>) {
  (multiply_row(a[kByRow ? static_cast<int64_t>(kRow) * a_stride : static_cast<int64_t>(kRow)], b0, b1,
                c[2 * kRow], c[2 * kRow + 1]),
   ...);
}

template <bool kByRow, int kVectors, int kRows>
HWY_INLINE void step(const float* a, int64_t a_stride, const float* b, V* c) {
  const D d;
  constexpr std::make_index_sequence<kRows> kEachRow;
  if constexpr (kVectors == 1) {
    multiply_step<kByRow>(a, a_stride, hn::LoadU(d, b), c, kEachRow);
  } else {
    multiply_step<kByRow>(a, a_stride, hn::LoadU(d, b), hn::LoadU(d, b + kLanes), c, kEachRow);
  }
}

template <size_t... kIndex>
HWY_INLINE void clear(V* c, std::index_sequence<kIndex...>) {
  ((c[kIndex] = hn::Zero(D())), ...);
}

template <int kVectors, size_t... kIndex>
HWY_INLINE void store(const V* c, float* to, int64_t ldc, std::index_sequence<kIndex...>) {
  (hn::StoreU(
       c[kIndex], D(),
       to + static_cast<int64_t>(kIndex / kVectors) * ldc + static_cast<int64_t>(kIndex % kVectors) * kLanes),
   ...);
}

HWY_INLINE void add_to(V c, float* to) {
  hn::StoreU(hn::Add(c, hn::LoadU(D(), to)), D(), to);
}

template <int kVectors, size_t... kIndex>
HWY_INLINE void store_sum(const V* c, float* to, int64_t ldc, std::index_sequence<kIndex...>) {
  (add_to(c[kIndex], to + static_cast<int64_t>(kIndex / kVectors) * ldc +
                         static_cast<int64_t>(kIndex % kVectors) * kLanes),
   ...);
}

template <bool kByRow, int kVectors, int kRows>
HWY_NOINLINE void multiply(const MicroArgs& args) {
  V c[kRows * kVectors];
  constexpr std::make_index_sequence<kRows * kVectors> kAll;
  clear(c, kAll);
  const float* HWY_RESTRICT a = args.a;
  const float* HWY_RESTRICT b = args.b;
  const int64_t a_stride = args.a_stride, b_stride = args.b_stride, k = args.k;
  const int64_t a_step = kByRow ? 1 : a_stride;
  int64_t p = 0;
  for (; p + 4 <= k; p += 4) {
    step<kByRow, kVectors, kRows>(a, a_stride, b, c);
    step<kByRow, kVectors, kRows>(a + a_step, a_stride, b + b_stride, c);
    step<kByRow, kVectors, kRows>(a + 2 * a_step, a_stride, b + 2 * b_stride, c);
    step<kByRow, kVectors, kRows>(a + 3 * a_step, a_stride, b + 3 * b_stride, c);
    a += 4 * a_step;
    b += 4 * b_stride;
  }
  for (; p < k; ++p) {
    step<kByRow, kVectors, kRows>(a, a_stride, b, c);
    a += a_step;
    b += b_stride;
  }
  if (args.add) {
    store_sum<kVectors>(c, args.c, args.ldc, kAll);
  } else {
    store<kVectors>(c, args.c, args.ldc, kAll);
  }
}

template <bool kByRow, int kVectors, size_t... kRow>
const MicroKernel* table(std::index_sequence<kRow...>) {
  static constexpr MicroKernel kTable[] = {&multiply<kByRow, kVectors, static_cast<int>(kRow) + 1>...};
  return kTable;
}

/// Four columns (p .. p + 3) of kLanes rows of `b`, as four vectors written `width` floats apart.
HWY_INLINE void transpose_block(const float* b, int64_t ldb, float* HWY_RESTRICT out, int64_t width) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t p = 0; p < 4; ++p) out[p * width] = b[p];
  (void)ldb;
#else
  const D d;
  const hn::CappedTag<float, 4> d4;
  // Block q of vector r is row 4 q + r, so that transposing 4 x 4 within blocks leaves the rows in order.
  V rows[4];
  for (int64_t r = 0; r < 4; ++r) {
    const float* from = b + r * ldb;
#if HWY_MAX_BYTES == 64
    const hn::CappedTag<float, 8> d8;
    rows[r] = hn::Combine(d, hn::Combine(d8, hn::LoadU(d4, from + 12 * ldb), hn::LoadU(d4, from + 8 * ldb)),
                          hn::Combine(d8, hn::LoadU(d4, from + 4 * ldb), hn::LoadU(d4, from)));
#elif HWY_MAX_BYTES == 32
    rows[r] = hn::Combine(d, hn::LoadU(d4, from + 4 * ldb), hn::LoadU(d4, from));
#else
    rows[r] = hn::LoadU(d4, from);
#endif
  }
  const hn::Repartition<double, D> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[0], rows[1]));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[2], rows[3]));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[0], rows[1]));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[2], rows[3]));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, out);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, out + width);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, out + 2 * width);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, out + 3 * width);
#endif
}

void pack_transposed(const float* b, int64_t ldb, int64_t k, int64_t cols, float* HWY_RESTRICT out) {
  const int64_t width = (cols + kLanes - 1) / kLanes * kLanes;
  for (int64_t first = 0; first < cols; first += kLanes) {
    const int64_t count = std::min(kLanes, cols - first);
    const float* from = b + first * ldb;
    int64_t p = 0;
    if (count == kLanes) {
      for (; p + 4 <= k; p += 4) {
        // Meant for rows that come from memory (the tied head); its effect alone has not been measured.
        if (p % 16 == 0) {
          for (int64_t j = 0; j < kLanes; ++j) __builtin_prefetch(from + j * ldb + p + 96);
        }
        transpose_block(from + p, ldb, out + p * width + first, width);
      }
    }
    for (; p < k; ++p) {
      float* to = out + p * width + first;
      for (int64_t j = 0; j < count; ++j) to[j] = from[j * ldb + p];
      std::fill(to + count, to + kLanes, 0.0f);
    }
  }
}

void pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t cols, float* HWY_RESTRICT out) {
  if (transposed) return pack_transposed(b, ldb, k, cols, out);
  const D d;
  if (cols == 2 * kLanes) {
    for (int64_t p = 0; p < k; ++p) {
      hn::Store(hn::LoadU(d, b + p * ldb), d, out + p * cols);
      hn::Store(hn::LoadU(d, b + p * ldb + kLanes), d, out + p * cols + kLanes);
    }
    return;
  }
  const int64_t width = (cols + kLanes - 1) / kLanes * kLanes;
  for (int64_t p = 0; p < k; ++p) {
    std::copy_n(b + p * ldb, cols, out + p * width);
    std::fill(out + p * width + cols, out + (p + 1) * width, 0.0f);
  }
}

void pack_a(const float* a, int64_t lda, int64_t k, int64_t rows, int64_t readable, float* HWY_RESTRICT out) {
  const D d;
  if (readable < kPackStride) {
    for (int64_t p = 0; p < k; ++p) std::copy_n(a + p * lda, rows, out + p * kPackStride);
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t i = 0; i < kPackStride; i += kLanes) {
      hn::Store(hn::LoadU(d, a + p * lda + i), d, out + p * kPackStride + i);
    }
  }
}

const GemmKernels* get_gemm_kernels() {
  constexpr std::make_index_sequence<kRowsMax> kEach;
  static const GemmKernels kernels{kRowsMax,
                                   kLanes,
                                   2 * kLanes,
                                   kPackStride,
                                   {table<true, 1>(kEach), table<true, 2>(kEach)},
                                   {table<false, 1>(kEach), table<false, 2>(kEach)},
                                   &pack_b,
                                   &pack_a};
  return &kernels;
}

}  // namespace
}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(get_gemm_kernels);

const GemmKernels& gemm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(get_gemm_kernels)();
}

}  // namespace lockstep::kernels
#endif
