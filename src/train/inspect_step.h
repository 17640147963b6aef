// `lockstep inspect step`: one forward, backward, clip and AdamW step on given weights and tokens, every
// intermediate result written out, so that anybody can hold lockstep against another program, tensor by
// tensor.
//
// Files (docs/formats/inspect_step.md): configuration JSON; weights and results as safetensors under
// nanoGPT's names. It runs the same engine as `lockstep train`, micro-batches included.
#pragma once

#include <string>

#include "base/file_system.h"
#include "base/status.h"
#include "model/config.h"

namespace lockstep {

struct InspectStepOptions {
  std::string config_path;  ///< JSON: n_layer, n_head, n_embd, block_size, vocab_size, bias, dropout, …
  std::string init_path;    ///< safetensors: F32 weights, tied head absent
  std::string batch_path;   ///< safetensors: I32 x and y of shape (batch, time)
  std::string
      out_path;  ///< safetensors to write: loss (), grad.NAME before clipping, param.NAME after the update
  ComputeType compute = ComputeType::kFp32;
  int64_t micro_rows = 0;  ///< rows of a micro-batch; 0: chosen as `train` does
};

struct InspectStepResult {
  double loss = 0.0;  ///< mean over counted tokens, nats
  double grad_norm = 0.0;
  int64_t tokens = 0;
  int64_t parameters = 0;
};

/// kUsage for the configuration, kData for weights and tokens, kIo for files; each names file, field and
/// value.
Result<InspectStepResult> inspect_step(FileSystem& files, const InspectStepOptions& options);

}  // namespace lockstep
