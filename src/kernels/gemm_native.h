// Our own fp32 product and the choice between it and the library. Internal to kernels.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace lockstep::kernels {

/// Whether our kernels are the faster ones for this product: a pure function of the shape, the strides and
/// the instruction set.
bool prefers_native(const GemmArgs& args);

/// Any shape on any instruction set. An element's bits depend on its row of A, its column of B and k alone.
void native_gemm(const GemmArgs& args, TileEpilogue epilogue);

/// The same product by the library, in single-threaded tiles.
void library_gemm(const GemmArgs& args, TileEpilogue epilogue);

}  // namespace lockstep::kernels
