#include "kernels/embedding.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/testing/for_each_isa.h"
#include "kernels/testing/guarded_buffer.h"

namespace lockstep::kernels {
namespace {

using testing::GuardedBuffer;
using testing::same_bits;

struct Shape {
  int64_t B, T, C, V, wpe_rows;
};
constexpr Shape kShapes[] = {{1, 1, 1, 1, 1},   {2, 3, 5, 4, 3},      {3, 7, 17, 2, 9},
                             {1, 9, 65, 65, 9}, {2, 33, 128, 65, 64}, {4, 40, 200, 3, 40}};

std::vector<int32_t> make_tokens(const Shape& s) {
  const RandomStream random(7, Purpose::kTest);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < s.B * s.T; ++i) {
    tokens.push_back(static_cast<int32_t>(
        random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(s.V))));  // with repeats
  }
  return tokens;
}

TEST(Embedding, ForwardEqualsTheReferenceBitForBit) {
  const std::vector<uint32_t> slots{4, 5, 6, 7};
  for (const Shape& s : kShapes) {
    const auto tokens = make_tokens(s);
    GuardedBuffer<float> wte(s.V * s.C), wpe(s.wpe_rows * s.C), out(s.B * s.T * s.C);
    testing::fill_normal(wte, 1);
    testing::fill_normal(wpe, 2);
    std::vector<float> expected(static_cast<size_t>(out.size()));
    for (const float p : {0.0f, 0.25f}) {
      const DropoutKey key{.p = p, .seed = 5, .step = 2, .site = 1, .slots = slots.data()};
      reference::embedding_forward(tokens.data(), wte.data(), wpe.data(), s.B, s.T, s.C, key,
                                   expected.data());
      testing::for_each_isa([&](const std::string&) {
        testing::for_each_thread_count([&](int) {
          embedding_forward(tokens.data(), wte.data(), wpe.data(), s.B, s.T, s.C, key, out.data());
          ASSERT_TRUE(same_bits(out.data(), expected.data(), out.size())) << "C=" << s.C << " p=" << p;
        });
      });
    }
  }
}

TEST(Embedding, BackwardEqualsTheReferenceBitForBit) {
  for (const Shape& s : kShapes) {
    const auto tokens = make_tokens(s);
    std::vector<float> dout(static_cast<size_t>(s.B * s.T * s.C));
    testing::fill_normal(dout, 3);
    std::vector<float> dwte_before(static_cast<size_t>(s.V * s.C));
    std::vector<float> dwpe_before(static_cast<size_t>(s.wpe_rows * s.C));
    testing::fill_normal(dwte_before, 4);
    testing::fill_normal(dwpe_before, 5);
    for (const float beta : {0.0f, 1.0f}) {
      auto expected_wte = dwte_before, expected_wpe = dwpe_before;
      reference::embedding_backward(tokens.data(), dout.data(), s.B, s.T, s.C, expected_wte.data(), beta,
                                    expected_wpe.data(), s.wpe_rows);
      testing::for_each_isa([&](const std::string&) {
        testing::for_each_thread_count([&](int) {
          GuardedBuffer<float> dwte(s.V * s.C), dwpe(s.wpe_rows * s.C);
          dwte.copy_from(dwte_before.data());
          dwpe.copy_from(dwpe_before.data());
          embedding_backward(tokens.data(), dout.data(), s.B, s.T, s.C, dwte.data(), beta, dwpe.data(),
                             s.wpe_rows);
          ASSERT_TRUE(same_bits(dwte.data(), expected_wte.data(), dwte.size())) << "C=" << s.C;
          ASSERT_TRUE(same_bits(dwpe.data(), expected_wpe.data(), dwpe.size())) << "C=" << s.C;
        });
      });
    }
  }
}

// With beta 0 the old contents, NaN included, are never read.
TEST(Embedding, BackwardOverwritesUninitialisedPositions) {
  const Shape s{2, 3, 19, 4, 5};
  const auto tokens = make_tokens(s);
  std::vector<float> dout(static_cast<size_t>(s.B * s.T * s.C));
  testing::fill_normal(dout, 3);
  testing::for_each_isa([&](const std::string&) {
    std::vector<float> dwte(static_cast<size_t>(s.V * s.C), 0.0f);
    std::vector<float> dwpe(static_cast<size_t>(s.wpe_rows * s.C), __builtin_nanf(""));
    embedding_backward(tokens.data(), dout.data(), s.B, s.T, s.C, dwte.data(), 0.0f, dwpe.data(), s.wpe_rows);
    for (size_t i = 0; i < dwpe.size(); ++i) {
      ASSERT_FALSE(dwpe[i] != dwpe[i]) << i;
      if (i >= static_cast<size_t>(s.T * s.C)) {
        ASSERT_EQ(dwpe[i], 0.0f);
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::kernels
