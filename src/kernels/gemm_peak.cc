#include "kernels/gemm_peak.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "base/check.h"
#include "base/random.h"
#include "kernels/bf16.h"
#include "kernels/gemm_backend.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kCube = 2048;
constexpr size_t kAlignment = 4096;

struct AlignedFree {
  void operator()(std::byte* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedFree>;

AlignedBytes allocate(size_t bytes) {
  auto* data = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  LOCKSTEP_CHECK(data != nullptr) << "out of memory for " << bytes << " bytes";
  return AlignedBytes(static_cast<std::byte*>(data));
}

size_t input_bytes(GemmType type) {
  return type == GemmType::kFp32 ? sizeof(float) : sizeof(uint16_t);
}

size_t matrix_bytes(const GemmProblem& p, GemmType type) {
  return static_cast<size_t>(p.m * p.k + p.k * p.n) * input_bytes(type) +
         static_cast<size_t>(p.m * p.n) * sizeof(float);
}

GemmProblem shorten(GemmProblem problem, GemmType type, size_t bytes_max) {
  while (matrix_bytes(problem, type) > bytes_max) {
    int64_t& longest =
        *std::max({&problem.m, &problem.n, &problem.k}, [](auto* a, auto* b) { return *a < *b; });
    longest = std::max<int64_t>(longest / 2 / 64 * 64, 64);
    if (longest == 64) break;
  }
  return problem;
}

template <typename Args, typename T>
Args make_args(const GemmProblem& p, const std::byte* a, const std::byte* b, std::byte* c) {
  return {p.transpose_a,
          p.transpose_b,
          p.m,
          p.n,
          p.k,
          reinterpret_cast<const T*>(a),
          p.transpose_a == Transpose::kYes ? p.m : p.k,
          reinterpret_cast<const T*>(b),
          p.transpose_b == Transpose::kYes ? p.k : p.n,
          0.0f,
          reinterpret_cast<float*>(c),
          p.n};
}

}  // namespace

struct GemmPeak::Candidate {
  GemmProblem problem;
  bool by_library;  // with its own threads
};

/// One A, B and C that all candidates share, and what the library prepared.
struct GemmPeak::Memory {
  GemmType type;
  AlignedBytes a, b, c, scratch;
  size_t scratch_bytes = 0;
};

std::string GemmProblem::text() const {
  return std::to_string(m) + 'x' + std::to_string(n) + " = A" + (transpose_a == Transpose::kYes ? "^T" : "") +
         " B" + (transpose_b == Transpose::kYes ? "^T" : "") + ", k " + std::to_string(k);
}

GemmPeak::GemmPeak(const std::vector<GemmProblem>& problems, GemmType type, size_t bytes_max)
    : memory_(std::make_unique<Memory>()) {
  std::vector<GemmProblem> distinct;
  const auto add = [&](const GemmProblem& problem) {
    const auto same = [&](const GemmProblem& other) { return other.text() == problem.text(); };
    if (std::none_of(distinct.begin(), distinct.end(), same)) distinct.push_back(problem);
  };
  add({Transpose::kNo, Transpose::kNo, kCube, kCube, kCube});
  for (const GemmProblem& problem : problems) add(shorten(problem, type, bytes_max));

  int64_t a_count = 0, b_count = 0, c_count = 0;
  for (const GemmProblem& p : distinct) {
    a_count = std::max(a_count, p.m * p.k);
    b_count = std::max(b_count, p.k * p.n);
    c_count = std::max(c_count, p.m * p.n);
    candidates_.push_back({p, false});
    candidates_.push_back({p, true});
  }
  memory_->type = type;
  memory_->a = allocate(static_cast<size_t>(a_count) * input_bytes(type));
  memory_->b = allocate(static_cast<size_t>(b_count) * input_bytes(type));
  memory_->c = allocate(static_cast<size_t>(c_count) * sizeof(float));
  // Values do not matter for speed as long as they stay normal numbers.
  const RandomStream random(1, Purpose::kTest);
  const auto fill = [&](std::byte* data, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const float value =
          static_cast<float>(random.words(static_cast<uint64_t>(i / 4))[static_cast<size_t>(i % 4)]) *
              0x1p-32f -
          0.5f;
      if (type == GemmType::kFp32) {
        reinterpret_cast<float*>(data)[i] = value;
      } else {
        reinterpret_cast<uint16_t*>(data)[i] = to_bf16(value);
      }
    }
  };
  fill(memory_->a.get(), a_count);
  fill(memory_->b.get(), b_count);
}

GemmPeak::~GemmPeak() = default;

int GemmPeak::candidate_count() const {
  return static_cast<int>(candidates_.size());
}

double GemmPeak::measure_seconds(const Candidate& candidate) {
  using Clock = std::chrono::steady_clock;
  Memory& memory = *memory_;
  const auto best_of = [](const auto& body) {
    double best = std::numeric_limits<double>::infinity();
    body();
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto start = Clock::now();
      body();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
  };
  if (memory.type == GemmType::kFp32) {
    const auto args =
        make_args<GemmArgs, float>(candidate.problem, memory.a.get(), memory.b.get(), memory.c.get());
    return candidate.by_library ? best_of([&] { backend::sgemm(args, /*threaded=*/true); })
                                : best_of([&] { gemm(args); });
  }
  const auto args =
      make_args<GemmBf16Args, uint16_t>(candidate.problem, memory.a.get(), memory.b.get(), memory.c.get());
  if (!candidate.by_library) return best_of([&] { gemm(args); });
  const auto product = backend::make_bf16_product(args, /*threaded=*/true);
  if (product == nullptr) return std::numeric_limits<double>::infinity();
  if (product->scratch_bytes() > memory.scratch_bytes) {
    memory.scratch = allocate(product->scratch_bytes());
    memory.scratch_bytes = product->scratch_bytes();
  }
  return best_of([&] { product->run(args.a, args.b, args.c, memory.scratch.get()); });
}

void GemmPeak::sample(double budget_s) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  int done = 0;
  do {
    const Candidate& candidate = candidates_[static_cast<size_t>(run_count_++) % candidates_.size()];
    const double gflops = candidate.problem.flops() / measure_seconds(candidate) * 1e-9;
    if (gflops > best_gflops_) {
      best_gflops_ = gflops;
      best_problem_ = candidate.problem;
    }
  } while (++done < candidate_count() &&
           std::chrono::duration<double>(Clock::now() - start).count() < budget_s);
}

}  // namespace lockstep::kernels
