#include "kernels/dropout.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/dropout-inl.h"
// clang-format on
#include "kernels/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

void dropout_range(const DropoutStream& stream, uint64_t element, int64_t n, const float* x, float* y) {
  dropout_row(FloatTag(), stream, element, n, x, y);
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(dropout_range);

void dropout(const float* x, int64_t batch, int64_t per_sample, const DropoutKey& key, float* y) {
  // Compute-bound (ten Philox rounds), so pieces are shorter than those of the memory-bound kernels.
  constexpr int64_t kElements = 4096;
  const int64_t pieces_per_sample = piece_count(per_sample, kElements);
  const auto range = HWY_DYNAMIC_DISPATCH(dropout_range);
  parallel_pieces(batch * pieces_per_sample, [&](int64_t piece) {
    const int64_t sample = piece / pieces_per_sample;
    const int64_t begin = piece % pieces_per_sample * kElements;
    const int64_t n = std::min(kElements, per_sample - begin);
    const int64_t at = sample * per_sample + begin;
    if (key.p == 0.0f) {
      if (x != y) std::memcpy(y + at, x + at, static_cast<size_t>(n) * sizeof(float));
    } else {
      range(make_dropout_stream(key, sample), static_cast<uint64_t>(begin), n, x + at, y + at);
    }
  });
}

}  // namespace lockstep::kernels
#endif
