// Dropout multipliers for a run of consecutive elements, for use inside other kernels (attention, residual
// and norm, embedding). Compiled once per instruction set.
//
//   const DropoutStream stream = make_dropout_stream(key, batch_row);  // once per (sample, site)
//   dropout_multipliers(d, stream, element, n, out);                    // out[i] = 0 or 1 / (1 - p)
//   value[i] * out[i]                                                   // what every kernel does with it
//
// Philox runs with one block per 64-bit lane, each of its four words in the low half of a lane: the
// 32 x 32 -> 64 multiplication reads only low halves, so the state never needs repacking.
#if defined(LOCKSTEP_KERNELS_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_DROPOUT_INL_H_
#undef LOCKSTEP_KERNELS_DROPOUT_INL_H_
#else
#define LOCKSTEP_KERNELS_DROPOUT_INL_H_
#endif

#include <cstdint>

#include "base/random.h"
#include "kernels/dropout.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
/// Multipliers of the 2 * lanes elements that start at element 4 * block, in element order.
template <class D>
HWY_INLINE void dropout_block(D d, const DropoutStream& stream, uint32_t block, hn::Vec<D>& first,
                              hn::Vec<D>& second) {
  const hn::Repartition<uint32_t, D> d32;
  const hn::Repartition<uint64_t, D> d64;
  const auto n64 = static_cast<uint32_t>(hn::Lanes(d64));
  // Interleaving below works within 128-bit halves and emits the even lanes, then the odd lanes: so the even
  // lanes hold the first half of the blocks and the odd lanes the second.
  const auto lane = hn::Iota(d64, 0);
  const auto odd = hn::And(lane, hn::Set(d64, 1));
  const auto half = hn::ShiftRight<1>(lane);
  const auto offset = hn::Add(half, hn::IfThenElseZero(hn::Ne(odd, hn::Zero(d64)), hn::Set(d64, n64 / 2)));
  // The counter wraps at 32 bits by itself: only the low half of a lane is ever read.
  auto c0 = hn::Add(offset, hn::Set(d64, block));
  auto c1 = hn::Set(d64, stream.slot);
  auto c2 = hn::Set(d64, stream.step);
  auto c3 = hn::Set(d64, stream.site);
  const auto multiplier0 = hn::Set(d32, 0xD2511F53u);
  const auto multiplier1 = hn::Set(d32, 0xCD9E8D57u);
  auto k0 = static_cast<uint32_t>(stream.seed);
  auto k1 = static_cast<uint32_t>(stream.seed >> 32);
  HWY_UNROLL(10)
  for (int round = 0; round < 10; ++round) {
    const auto p0 = hn::MulEven(hn::BitCast(d32, c0), multiplier0);
    const auto p1 = hn::MulEven(hn::BitCast(d32, c2), multiplier1);
    c0 = hn::Xor(hn::ShiftRight<32>(p1), hn::Xor(c1, hn::Set(d64, k0)));
    c2 = hn::Xor(hn::ShiftRight<32>(p0), hn::Xor(c3, hn::Set(d64, k1)));
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const auto low = hn::Set(d64, 0xFFFFFFFFu);
  const auto words01 = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
  const auto words23 = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
  const auto w0 = hn::BitCast(d32, hn::InterleaveLower(d64, words01, words23));
  const auto w1 = hn::BitCast(d32, hn::InterleaveUpper(d64, words01, words23));
  const auto threshold = hn::Set(d32, stream.threshold);
  const auto scale = hn::BitCast(d32, hn::Set(d, stream.scale));
  first = hn::BitCast(d, hn::IfThenZeroElse(hn::Lt(w0, threshold), scale));
  second = hn::BitCast(d, hn::IfThenZeroElse(hn::Lt(w1, threshold), scale));
}
#endif

/// out[i] = multiplier (0 or stream.scale) of element `element` + i, i < n. Any element, any n >= 0; fastest
/// when element is a multiple of 4.
template <class D>
HWY_INLINE void dropout_multipliers(D d, const DropoutStream& stream, uint64_t element, int64_t n,
                                    float* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  for (int64_t i = 0; i < n; ++i) out[i] = dropout_multiplier(stream, element + static_cast<uint64_t>(i));
#else
  const int64_t lanes = lanes_of(d);
  auto block = static_cast<uint32_t>(element / 4);
  const auto skip = static_cast<int64_t>(element % 4);
  const auto blocks_per_step = static_cast<uint32_t>(lanes / 2);
  HWY_ALIGN float spill[2 * HWY_MAX_BYTES / sizeof(float)];
  int64_t i = 0;
  hn::Vec<D> first, second;
  if (skip != 0) {
    // The first step is cut at the front; what follows starts on a block again.
    dropout_block(d, stream, block, first, second);
    hn::Store(first, d, spill);
    hn::Store(second, d, spill + lanes);
    for (; i < n && i + skip < 2 * lanes; ++i) out[i] = spill[i + skip];
    block += blocks_per_step;
  }
  for (; i + 2 * lanes <= n; i += 2 * lanes, block += blocks_per_step) {
    dropout_block(d, stream, block, first, second);
    hn::StoreU(first, d, out + i);
    hn::StoreU(second, d, out + i + lanes);
  }
  if (i < n) {
    dropout_block(d, stream, block, first, second);
    hn::Store(first, d, spill);
    hn::Store(second, d, spill + lanes);
    for (int64_t j = 0; i < n; ++i, ++j) out[i] = spill[j];
  }
#endif
}

/// y[i] = x[i] * multiplier of element `element` + i; x may equal y.
template <class D>
HWY_INLINE void dropout_row(D d, const DropoutStream& stream, uint64_t element, int64_t n, const float* x,
                            float* y) {
  const int64_t lanes = lanes_of(d);
#if HWY_TARGET != HWY_SCALAR
  if (element % 4 == 0) {
    auto block = static_cast<uint32_t>(element / 4);
    for (; n >= 2 * lanes; n -= 2 * lanes, x += 2 * lanes, y += 2 * lanes, element += 2 * lanes) {
      hn::Vec<D> first, second;
      dropout_block(d, stream, block, first, second);
      hn::StoreU(hn::Mul(hn::LoadU(d, x), first), d, y);
      hn::StoreU(hn::Mul(hn::LoadU(d, x + lanes), second), d, y + lanes);
      block += static_cast<uint32_t>(lanes / 2);
    }
  }
#endif
  constexpr int64_t kChunk = 256;
  HWY_ALIGN float multipliers[kChunk];
  for (; n > 0; n -= kChunk, x += kChunk, y += kChunk, element += kChunk) {
    const int64_t count = n < kChunk ? n : kChunk;
    dropout_multipliers(d, stream, element, count, multipliers);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Load(d, multipliers + i)), d, y + i);
    }
    if (i < count) {
      const auto v = hn::Mul(load_partial(d, x + i, count - i), hn::Load(d, multipliers + i));
      store_partial(v, d, y + i, count - i);
    }
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
