// The one difference between oneDNN 2 and 3 that matters here, behind one function: CMake compiles
// gemm_onednn_v2.cc or gemm_onednn_v3.cc. Only the gemm_onednn files see oneDNN's headers.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace lockstep::kernels::backend {

/// C = A . B with `attributes`; an empty descriptor when the library has no such kernel.
dnnl::matmul::primitive_desc make_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                         const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                         const dnnl::primitive_attr& attributes);

}  // namespace lockstep::kernels::backend
