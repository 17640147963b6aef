#include "kernels/gemm_onednn.h"

namespace lockstep::kernels::backend {

dnnl::matmul::primitive_desc make_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                         const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                         const dnnl::primitive_attr& attributes) {
  return {engine, a, b, c, attributes, /*allow_empty=*/true};
}

}  // namespace lockstep::kernels::backend
