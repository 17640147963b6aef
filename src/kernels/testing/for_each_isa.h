// Helpers of the kernel tests: each body runs once per instruction set that this CPU has, and with several
// thread counts; inputs are varied random numbers.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>

#include "base/random.h"
#include "kernels/isa.h"
#include "kernels/threads.h"

namespace lockstep::kernels::testing {

/// body(name) under each available instruction set, then returns to the best.
template <typename Body>
void for_each_isa(const Body& body) {
  for (const std::string& isa : available_isas()) {
    SCOPED_TRACE("instruction set " + isa);
    ASSERT_TRUE(force_isa(isa));
    ASSERT_EQ(current_isa(), isa);
    body(isa);
  }
  ASSERT_TRUE(force_isa(""));
}

/// body(threads) with 1, 2, 3 and 5 threads.
template <typename Body>
void for_each_thread_count(const Body& body) {
  const int before = thread_count();
  for (const int threads : {1, 2, 3, 5}) {
    SCOPED_TRACE("threads " + std::to_string(threads));
    set_thread_count(threads);
    body(threads);
  }
  set_thread_count(before);
}

/// Normal random numbers, and a check that they vary.
template <typename Container>
void fill_normal(Container& x, uint32_t stream, double scale = 1.0, double shift = 0.0) {
  const RandomStream random(20261201, Purpose::kTest, stream);
  uint64_t index = 0;
  for (auto& value : x) value = static_cast<float>(shift + scale * random.normal(index++));
  if (index > 1) {
    const auto* data = &*x.begin();
    ASSERT_NE(data[0], data[index - 1]) << "test inputs must vary";
  }
}

/// Bitwise equality of n floats; names the first that differs.
inline ::testing::AssertionResult same_bits(const float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return ::testing::AssertionFailure()
             << "element " << i << " of " << n << ": " << a[i] << " and " << b[i] << " differ in bits";
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace lockstep::kernels::testing
