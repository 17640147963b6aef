#include "kernels/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/bf16.h"
#include "kernels/gemm_native.h"
#include "kernels/isa.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/threads.h"

namespace lockstep::kernels {
namespace {

using testing::Edge;
using testing::GuardedBuffer;

constexpr double kUnitRoundoff = 0x1p-24;  // fp32, to nearest

struct Shape {
  int64_t m, n, k;
  bool ta, tb, accumulate;
  int64_t pad_a, pad_b, pad_c;  // row stride minus width
  bool at_end;                  // where the guard pages touch

  std::string text() const {
    return "m=" + std::to_string(m) + " n=" + std::to_string(n) + " k=" + std::to_string(k) +
           (ta ? " A^T" : " A") + (tb ? " B^T" : " B") + (accumulate ? " +=" : " =") +
           " pads=" + std::to_string(pad_a) + ',' + std::to_string(pad_b) + ',' + std::to_string(pad_c) +
           (at_end ? " at end" : " at start");
  }
};

float as_float(float x) {
  return x;
}
float as_float(uint16_t x) {
  return from_bf16(x);
}
void assign(float x, float& to) {
  to = x;
}
void assign(float x, uint16_t& to) {
  to = to_bf16(x);
}

/// Normal numbers whose magnitude varies by row and column, so that a wrong index is a large error.
template <typename T>
void fill(T* data, int64_t count, uint32_t stream) {
  const RandomStream random(11, Purpose::kTest, stream);
  for (int64_t i = 0; i < count; ++i) {
    assign(static_cast<float>(random.normal(static_cast<uint64_t>(i))), data[i]);
  }
}

template <typename T, typename Args>
class Problem {
 public:
  explicit Problem(const Shape& shape)
      : shape_(shape),
        lda_((shape.ta ? shape.m : shape.k) + shape.pad_a),
        ldb_((shape.tb ? shape.k : shape.n) + shape.pad_b),
        ldc_(shape.n + shape.pad_c),
        a_count_((shape.ta ? shape.k : shape.m) * lda_ - shape.pad_a),
        b_count_((shape.tb ? shape.n : shape.k) * ldb_ - shape.pad_b),
        c_count_(shape.m * ldc_ - shape.pad_c),
        a_(a_count_, shape.at_end ? Edge::kEnd : Edge::kStart),
        b_(b_count_, shape.at_end ? Edge::kEnd : Edge::kStart),
        c_(c_count_, shape.at_end ? Edge::kEnd : Edge::kStart) {
    fill(a_.data(), a_count_, 1);
    fill(b_.data(), b_count_, 2);
    reset();
  }

  /// C as before the product: NaN where it must not be read, random where it is added to.
  void reset() {
    fill(c_.data(), c_count_, 3);
    if (shape_.accumulate) return;
    for (int64_t i = 0; i < c_count_; ++i) {
      if (i % ldc_ < shape_.n) c_.data()[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }

  Args args(float* c) {
    Args args;
    args.transpose_a = shape_.ta ? Transpose::kYes : Transpose::kNo;
    args.transpose_b = shape_.tb ? Transpose::kYes : Transpose::kNo;
    args.m = shape_.m;
    args.n = shape_.n;
    args.k = shape_.k;
    args.a = a_.data();
    args.lda = lda_;
    args.b = b_.data();
    args.ldb = ldb_;
    args.beta = shape_.accumulate ? 1.0f : 0.0f;
    args.c = c;
    args.ldc = ldc_;
    return args;
  }
  Args args() { return args(c_.data()); }
  std::vector<float> result() { return {c_.data(), c_.data() + c_count_}; }

  /// Checks C against the product in double, computed at the first call. Each element may be off by
  /// (k + 2) u sum|a||b|: k roundings of the sum in whatever order, one of the addition to C, one of the
  /// reference's result.
  void check(const std::string& by) {
    if (expected_.empty()) expect();
    const double factor = static_cast<double>(shape_.k + 2) * kUnitRoundoff;
    for (int64_t i = 0; i < c_count_; ++i) {
      const auto at = static_cast<size_t>(i);
      const double got = c_.data()[i];
      if (i % ldc_ >= shape_.n) {
        ASSERT_EQ(got, expected_[at])
            << "written between rows, element " << i << ", " << by << ", " << shape_.text();
        continue;
      }
      const double error = std::abs(got - expected_[at]) / (factor * bound_[at]);
      worst_ = std::max(worst_, error);
      ASSERT_LE(error, 1.0) << "error / tolerance at row " << i / ldc_ << ", col " << i % ldc_ << ": got "
                            << got << ", expected " << expected_[at] << ", " << by << ", " << shape_.text();
    }
  }
  double worst() const { return worst_; }

 private:
  /// The product, and the sum of |a||b| plus |c| where it is added to.
  void expect() {
    expected_.assign(static_cast<size_t>(c_count_), 0.0f);
    fill(expected_.data(), c_count_, 3);
    bound_ = expected_;
    for (float& x : bound_) x = shape_.accumulate ? std::abs(x) : 0.0f;
    reference::gemm(args(expected_.data()));
    std::vector<float> a(static_cast<size_t>(a_count_)), b(static_cast<size_t>(b_count_));
    for (size_t i = 0; i < a.size(); ++i) a[i] = std::abs(as_float(a_.data()[i]));
    for (size_t i = 0; i < b.size(); ++i) b[i] = std::abs(as_float(b_.data()[i]));
    reference::gemm({shape_.ta ? Transpose::kYes : Transpose::kNo,
                     shape_.tb ? Transpose::kYes : Transpose::kNo, shape_.m, shape_.n, shape_.k, a.data(),
                     lda_, b.data(), ldb_, 1.0f, bound_.data(), ldc_});
  }

  Shape shape_;
  int64_t lda_, ldb_, ldc_;
  int64_t a_count_, b_count_, c_count_;
  GuardedBuffer<T> a_, b_;
  GuardedBuffer<float> c_;
  std::vector<float> expected_, bound_;
  double worst_ = 0.0;
};

/// Sizes around the borders of vectors, register blocks and tiles, in random company, all transposes and
/// betas; then shapes of several tiles like the model's.
std::vector<Shape> shapes() {
  const int64_t sides[] = {1,  2,  3,  5,  6,  7,  8,  13, 14, 15, 16,  17,
                           31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 127, 129};
  const RandomStream random(5, Purpose::kTest);
  uint64_t next = 0;
  const auto draw = [&](uint64_t bound) { return random.below(next++, bound); };
  std::vector<Shape> result;
  const auto add = [&](int64_t m, int64_t n, int64_t k) {
    const uint64_t bits = draw(16);
    result.push_back({m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0,
                      static_cast<int64_t>(draw(4)), static_cast<int64_t>(draw(4)),
                      static_cast<int64_t>(draw(4)), (bits & 8) != 0});
  };
  for (int i = 0; i < 150; ++i) add(sides[draw(24)], sides[draw(24)], sides[draw(24)]);
  for (const int64_t side : sides) {
    add(side, 65, 128);
    add(65, side, 40);
    add(50, 70, side);
  }
  for (int flags = 0; flags < 8; ++flags) {
    const bool ta = flags & 1, tb = flags & 2, accumulate = flags & 4;
    result.push_back({385, 401, 40, ta, tb, accumulate, 0, 0, 0, true});
    result.push_back({65, 128, 520, ta, tb, accumulate, 0, 0, 0, true});
    result.push_back({100, 65, 1100, ta, tb, accumulate, 1, 2, 3, true});
    result.push_back(
        {20, 40, 1025, ta, tb, accumulate, ta ? 1024 - 20 : 0, tb ? 0 : 1024 - 40, 0, true});  // collide
    result.push_back({3, 1000, 300, ta, tb, accumulate, 0, 5, 0, true});
  }
  return result;
}

/// One way to compute a product.
template <typename Args>
struct Implementation {
  std::string name;
  std::function<void(const Args&, TileEpilogue)> run;
};

/// Everything that gemm() may choose from, and gemm() itself; our own kernels on every instruction set.
std::vector<Implementation<GemmArgs>> fp32_implementations() {
  std::vector<Implementation<GemmArgs>> all = {
      {"gemm", [](const GemmArgs& args, TileEpilogue epilogue) { gemm(args, epilogue); }},
      {"library", [](const GemmArgs& args, TileEpilogue epilogue) { library_gemm(args, epilogue); }}};
  // A run that holds the library to an instruction set is about the library.
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) return all;
  for (const std::string& isa : available_isas()) {
    all.push_back({"native " + isa, [isa](const GemmArgs& args, TileEpilogue epilogue) {
                     ASSERT_TRUE(force_isa(isa));
                     native_gemm(args, epilogue);
                     force_isa("");
                   }});
  }
  return all;
}

std::vector<Implementation<GemmBf16Args>> bf16_implementations() {
  return {{"gemm", [](const GemmBf16Args& args, TileEpilogue epilogue) { gemm(args, epilogue); }}};
}

std::vector<Implementation<GemmArgs>> implementations(const GemmArgs*) {
  return fp32_implementations();
}
std::vector<Implementation<GemmBf16Args>> implementations(const GemmBf16Args*) {
  return bf16_implementations();
}

template <typename T, typename Args>
void check_all_shapes() {
  double worst = 0.0;
  const int threads = thread_count();
  int index = 0;
  for (const Shape& shape : shapes()) {
    // One in eight in parallel: a team that shares its cores with others takes milliseconds to meet.
    set_thread_count(index++ % 8 == 0 ? threads : 1);
    Problem<T, Args> problem(shape);
    for (const auto& implementation : implementations(static_cast<const Args*>(nullptr))) {
      problem.reset();
      implementation.run(problem.args(), {});
      problem.check(implementation.name);
      if (::testing::Test::HasFatalFailure()) return;
    }
    worst = std::max(worst, problem.worst());
  }
  set_thread_count(threads);
  EXPECT_GT(worst, 0.0) << "no rounding anywhere: the inputs do not vary";
  ::testing::Test::RecordProperty("largest_error_over_tolerance", std::to_string(worst));
}

TEST(GemmTest, ShapesCoverAllTransposesAndVary) {
  int seen[8] = {};
  for (const Shape& shape : shapes()) {
    ++seen[(shape.ta ? 1 : 0) + (shape.tb ? 2 : 0) + (shape.accumulate ? 4 : 0)];
  }
  for (const int count : seen) EXPECT_GE(count, 15);
}

TEST(GemmTest, NamesTheInstructionSetsThatDidNotRun) {
  for (const std::string& isa : unavailable_isas())
    std::printf("isa not run here: %s (native gemm)\n", isa.c_str());
  if (!std::string(gemm_library()).ends_with("amx")) std::printf("isa not run here: AMX (bf16 products)\n");
  EXPECT_FALSE(available_isas().empty());
}

TEST(GemmTest, Fp32MatchesDouble) {
  check_all_shapes<float, GemmArgs>();
}

TEST(GemmTest, Bf16MatchesDouble) {
  check_all_shapes<uint16_t, GemmBf16Args>();
}

template <typename T, typename Args>
void check_thread_counts() {
  const int before = thread_count();
  for (const Shape& shape : {Shape{768, 384, 128, false, true, false, 0, 0, 0, true},
                             Shape{384, 128, 768, true, false, true, 0, 0, 0, true},
                             Shape{384, 65, 1030, false, false, false, 1, 1, 1, true},
                             Shape{65, 400, 100, true, true, true, 0, 3, 0, false},
                             // One tile, which nobody may cut along k.
                             Shape{40, 24, 9000, false, false, false, 0, 0, 0, true},
                             Shape{64, 64, 4096, true, false, true, 0, 0, 0, true}}) {
    Problem<T, Args> problem(shape);
    for (const auto& implementation : implementations(static_cast<const Args*>(nullptr))) {
      problem.reset();
      set_thread_count(1);
      implementation.run(problem.args(), {});
      const std::vector<float> one = problem.result();
      for (const int threads : {2, 3, 5}) {
        problem.reset();
        set_thread_count(threads);
        implementation.run(problem.args(), {});
        const std::vector<float> many = problem.result();
        EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0)
            << threads << " threads, " << implementation.name << ", " << shape.text();
      }
    }
  }
  set_thread_count(before);
}

TEST(GemmTest, Fp32HasTheSameBitsForAnyThreadCount) {
  check_thread_counts<float, GemmArgs>();
}

TEST(GemmTest, Bf16HasTheSameBitsForAnyThreadCount) {
  check_thread_counts<uint16_t, GemmBf16Args>();
}

template <typename T, typename Args>
void check_epilogue() {
  for (const Shape& shape : {Shape{1, 1, 1, false, false, false, 0, 0, 0, true},
                             Shape{768, 512, 64, false, true, false, 0, 0, 0, true},
                             Shape{65, 1000, 33, true, false, true, 0, 0, 0, true},
                             Shape{385, 65, 20, false, false, false, 0, 0, 7, true}}) {
    Problem<T, Args> problem(shape);
    for (const auto& implementation : implementations(static_cast<const Args*>(nullptr))) {
      problem.reset();
      implementation.run(problem.args(), {});
      const std::vector<float> plain = problem.result();
      problem.reset();
      struct Context {
        float* c;
        int64_t ldc;
        std::vector<std::atomic<int>> visits;
      } context{problem.args().c, problem.args().ldc, std::vector<std::atomic<int>>(plain.size())};
      implementation.run(problem.args(), {[](const void* opaque, const Tile& tile) {
                                            auto& to = *static_cast<Context*>(const_cast<void*>(opaque));
                                            for (int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
                                              for (int64_t j = tile.col; j < tile.col + tile.cols; ++j) {
                                                to.c[i * to.ldc + j] *=
                                                    2.0f;  // exact: shows that the element was finished
                                                ++to.visits[static_cast<size_t>(i * to.ldc + j)];
                                              }
                                            }
                                          },
                                          &context});
      const std::vector<float> doubled = problem.result();
      for (size_t i = 0; i < plain.size(); ++i) {
        const bool inside = static_cast<int64_t>(i) % context.ldc < shape.n;
        ASSERT_EQ(context.visits[i].load(), inside ? 1 : 0)
            << "element " << i << ", " << implementation.name << ", " << shape.text();
        ASSERT_EQ(doubled[i], inside ? 2.0f * plain[i] : plain[i])
            << "element " << i << ", " << implementation.name << ", " << shape.text();
      }
    }
  }
}

TEST(GemmTest, Fp32EpilogueSeesEachFinishedElementOnce) {
  check_epilogue<float, GemmArgs>();
}

TEST(GemmTest, Bf16EpilogueSeesEachFinishedElementOnce) {
  check_epilogue<uint16_t, GemmBf16Args>();
}

// What lets the tiles be cut as one likes: an element is the same whatever is computed beside it.
TEST(GemmTest, NativeElementsDoNotDependOnTheirCompany) {
  for (const std::string& isa : available_isas()) {
    ASSERT_TRUE(force_isa(isa));
    for (const bool tb : {false, true}) {
      Problem<float, GemmArgs> whole({100, 160, 600, false, tb, false, 0, 0, 0, true});
      native_gemm(whole.args(), {});
      const std::vector<float> expected = whole.result();
      GemmArgs part = whole.args();
      std::vector<float> c(23 * 33, 0.0f);
      part.m = 23;
      part.n = 33;
      part.a += 37 * part.lda;
      part.b += tb ? 41 * part.ldb : 41;
      part.c = c.data();
      part.ldc = 33;
      native_gemm(part, {});
      for (size_t i = 0; i < 23; ++i) {
        for (size_t j = 0; j < 33; ++j) {
          ASSERT_EQ(c[i * 33 + j], expected[(37 + i) * 160 + 41 + j])
              << isa << ", row " << i << ", col " << j;
        }
      }
    }
    force_isa("");
  }
}

TEST(GemmTest, NamesItsLibrary) {
  EXPECT_THAT(std::string(gemm_library()), ::testing::ContainsRegex("oneDNN [23]\\.[0-9]+\\.[0-9]+, "));
}

// CTest runs this program once more for each instruction set below the best (CMakeLists.txt). Fails where the
// variable has no effect; says so and skips where the CPU lacks the instructions.
TEST(GemmTest, UsesTheInstructionSetItIsHeldTo) {
  const char* wanted = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (wanted == nullptr) GTEST_SKIP() << "ONEDNN_MAX_CPU_ISA is not set";
  std::string name(wanted);
  for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
  const std::string library = gemm_library();
  const std::string used = library.substr(library.find(", ") + 2);
  const bool supported = name == "sse41"         ? __builtin_cpu_supports("sse4.1") != 0
                         : name == "avx2"        ? __builtin_cpu_supports("avx2") != 0
                         : name == "avx512_core" ? __builtin_cpu_supports("avx512bw") != 0
                                                 : false;
  if (!supported) GTEST_SKIP() << "this CPU lacks " << name << "; " << library;
  EXPECT_EQ(used, name);
  EXPECT_FALSE(cpu_has_fast_bf16()) << "with the library held to " << name;
}

}  // namespace
}  // namespace lockstep::kernels
