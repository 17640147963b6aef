#include "kernels/gemm_onednn.h"

#include <omp.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "kernels/gemm_backend.h"

namespace lockstep::kernels::backend {
namespace {

// dnnl_cpu_isa_t is a set of bits in which a better instruction set contains the lesser ones.
bool effective_isa_has(dnnl::cpu_isa isa) {
  const auto bits = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (bits & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
}

std::string describe_library() {
  const dnnl_version_t* version = dnnl_version();
  const std::pair<dnnl::cpu_isa, const char*> names[] = {
      {dnnl::cpu_isa::avx512_core_amx, "avx512_core_amx"},
      {dnnl::cpu_isa::avx512_core_bf16, "avx512_core_bf16"},
      {dnnl::cpu_isa::avx512_core_vnni, "avx512_core_vnni"},
      {dnnl::cpu_isa::avx512_core, "avx512_core"},
      {dnnl::cpu_isa::avx2, "avx2"},
      {dnnl::cpu_isa::avx, "avx"},
      {dnnl::cpu_isa::sse41, "sse41"}};
  std::string text = "oneDNN " + std::to_string(version->major) + '.' + std::to_string(version->minor) + '.' +
                     std::to_string(version->patch) + ", ";
  for (const auto& [isa, name] : names) {
    if (effective_isa_has(isa)) return text + name;
  }
  return text + "generic code";
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN takes the number of threads from OpenMP's current setting: of sgemm when it is called, of a
// primitive when it is made and, in some implementations, when it runs.
class ThreadCountScope {
 public:
  explicit ThreadCountScope(bool threaded) : before_(threaded ? 0 : omp_get_max_threads()) {
    if (before_ > 1) omp_set_num_threads(1);
  }
  ~ThreadCountScope() {
    if (before_ > 1) omp_set_num_threads(before_);
  }
  ThreadCountScope(const ThreadCountScope&) = delete;
  ThreadCountScope& operator=(const ThreadCountScope&) = delete;

 private:
  int before_;
};

class OneDnnBf16Product : public Bf16Product {
 public:
  OneDnnBf16Product(const dnnl::matmul::primitive_desc& description, bool threaded)
      : description_(description), primitive_(description), threaded_(threaded) {}

  size_t scratch_bytes() const override { return description_.scratchpad_desc().get_size(); }

  void run(const uint16_t* a, const uint16_t* b, float* c, std::byte* scratch) const override {
    // Some implementations look at the setting again when they run, and would cut k by it.
    const ThreadCountScope scope(threaded_);
    // The API takes pointers to mutable memory; inputs are not written.
    std::unordered_map<int, dnnl::memory> memories{
        {DNNL_ARG_SRC, memory(description_.src_desc(), const_cast<uint16_t*>(a))},
        {DNNL_ARG_WEIGHTS, memory(description_.weights_desc(), const_cast<uint16_t*>(b))},
        {DNNL_ARG_DST, memory(description_.dst_desc(), c)},
        {DNNL_ARG_SCRATCHPAD, memory(description_.scratchpad_desc(), scratch)}};
    dnnl::stream stream(cpu_engine());
    primitive_.execute(stream, memories);
    stream.wait();
  }

 private:
  static dnnl::memory memory(const dnnl::memory::desc& description, void* data) {
    return {description, cpu_engine(), data};
  }
  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
  bool threaded_;
};

dnnl::memory::desc matrix(int64_t rows, int64_t cols, int64_t stride, Transpose transpose,
                          dnnl::memory::data_type type) {
  if (transpose == Transpose::kYes) return {{rows, cols}, type, dnnl::memory::dims{1, stride}};
  return {{rows, cols}, type, dnnl::memory::dims{stride, 1}};
}

}  // namespace

const char* library() {
  static const std::string text = describe_library();
  return text.c_str();
}

bool has_fast_bf16() {
  return effective_isa_has(dnnl::cpu_isa::avx512_core_bf16);
}

void sgemm(const GemmArgs& args, bool threaded) {
  const ThreadCountScope scope(threaded);
  const auto letter = [](Transpose transpose) { return transpose == Transpose::kYes ? 'T' : 'N'; };
  const dnnl_status_t status =
      dnnl_sgemm(letter(args.transpose_a), letter(args.transpose_b), args.m, args.n, args.k, 1.0f, args.a,
                 args.lda, args.b, args.ldb, args.beta, args.c, args.ldc);
  LOCKSTEP_CHECK(status == dnnl_success) << "dnnl_sgemm: status " << static_cast<int>(status)
                                         << " for m=" << args.m << " n=" << args.n << " k=" << args.k;
}

std::unique_ptr<Bf16Product> make_bf16_product(const GemmBf16Args& args, bool threaded) {
  using type = dnnl::memory::data_type;
  const ThreadCountScope scope(threaded);
  dnnl::primitive_attr attributes;
  // Scratch from the caller: the library's own belongs to the thread that made the primitive.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (args.beta != 0.0f) {
    dnnl::post_ops sum;
    sum.append_sum(args.beta);
    attributes.set_post_ops(sum);
  }
  const auto description =
      make_matmul(cpu_engine(), matrix(args.m, args.k, args.lda, args.transpose_a, type::bf16),
                  matrix(args.k, args.n, args.ldb, args.transpose_b, type::bf16),
                  matrix(args.m, args.n, args.ldc, Transpose::kNo, type::f32), attributes);
  if (!description) return nullptr;
  // The reference implementation is slower than widening to fp32.
  if (std::string(description.impl_info_str()).starts_with("ref")) return nullptr;
  return std::make_unique<OneDnnBf16Product>(description, threaded);
}

}  // namespace lockstep::kernels::backend
