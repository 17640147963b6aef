#include "kernels/gemm_onednn.h"

namespace lockstep::kernels::backend {

dnnl::matmul::primitive_desc make_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                         const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                         const dnnl::primitive_attr& attributes) {
  return {dnnl::matmul::desc(a, b, c), attributes, engine, /*allow_empty=*/true};
}

}  // namespace lockstep::kernels::backend
