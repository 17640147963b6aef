#include "kernels/gemm_onednn.h"

namespace lockstep::kernels::backend {
namespace {

// A dimension of 1 says nothing about its stride, and oneDNN 3.7.2 (avx512_core_bf16) then takes a vector for
// contiguous that is not: it wrote C with one column next to each other whatever ldc was, and read A^T with
// one column likewise. Found by gemm_test on Debian 13; all other combinations of sizes 1 and padding were
// right.
bool is_strided_vector(const dnnl::memory::desc& matrix, int vector, int single) {
  const auto dims = matrix.get_dims();
  return dims[single] == 1 && dims[vector] > 1 && matrix.get_strides()[vector] > 1;
}

}  // namespace

dnnl::matmul::primitive_desc make_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                         const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                         const dnnl::primitive_attr& attributes) {
  if (is_strided_vector(c, 0, 1) || is_strided_vector(a, 1, 0)) return {};
  return {engine, a, b, c, attributes, /*allow_empty=*/true};
}

}  // namespace lockstep::kernels::backend
