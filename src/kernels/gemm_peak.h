// The ceiling that a training step is measured against: the best GFLOP/s of any product of the step or of
// 2048^3, each computed both ways that are at hand (our gemm, and the library with its own threads).
//
// sample() measures one short round with the current thread count, so that rounds can be interleaved with the
// steps they are compared with. Memory is taken once, in the constructor. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm.h"

namespace lockstep::kernels {

/// A product without its matrices.
struct GemmProblem {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  int64_t m = 0, n = 0, k = 0;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  /// "1024x384 = A^T B, k 4096"
  std::string text() const;
};

enum class GemmType { kFp32, kBf16 };

class GemmPeak {
 public:
  /// Duplicates are dropped. A problem whose matrices need more than `bytes_max` together is shortened along
  /// its longest side until they fit; 2048^3 in fp32 (48 MiB) always fits.
  GemmPeak(const std::vector<GemmProblem>& problems, GemmType type, size_t bytes_max = size_t{64} << 20);
  ~GemmPeak();
  GemmPeak(const GemmPeak&) = delete;
  GemmPeak& operator=(const GemmPeak&) = delete;

  /// Runs candidates in turn, going on where the last round stopped, for about `budget_s` seconds but at
  /// least one. Each candidate runs three times in a row, the first to warm its caches.
  void sample(double budget_s = 0.03);

  /// 0 before the first sample.
  double best_gflops() const { return best_gflops_; }
  const GemmProblem& best_problem() const { return best_problem_; }
  /// Number of candidates: after as many runs each has been measured. For callers that want whole rounds.
  int candidate_count() const;
  int64_t run_count() const { return run_count_; }

 private:
  struct Candidate;
  struct Memory;
  double measure_seconds(const Candidate& candidate);

  std::vector<Candidate> candidates_;
  std::unique_ptr<Memory> memory_;
  GemmProblem best_problem_;
  double best_gflops_ = 0.0;
  int64_t run_count_ = 0;
};

}  // namespace lockstep::kernels
