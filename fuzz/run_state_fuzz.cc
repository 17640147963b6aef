// Any JSON as the `state` of a checkpoint: a run, or refused with kData. A run that was read can be described
// and its model counted without taking memory for it.
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "train/run_state.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const auto json = nlohmann::json::parse(data, data + size, nullptr, false);
  if (json.is_discarded()) return 0;
  const Result<StoredRun> run = stored_run_from_json(json, "checkpoint");
  if (!run.is_ok()) {
    LOCKSTEP_CHECK(run.status().code() == Code::kData) << run.status().message();
    return 0;
  }
  LOCKSTEP_CHECK(run->model.validate().is_ok());
  LOCKSTEP_CHECK(run->model.n_layer <= 1024);
  LOCKSTEP_CHECK(run->state.step >= 0 && run->state.samples >= 0);
  return 0;
}
