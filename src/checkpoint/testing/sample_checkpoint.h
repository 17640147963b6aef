// What the checkpoint tests save and expect back: a small model whose values are a function of the step.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/fault_file_system.h"
#include "checkpoint/checkpoint.h"

namespace lockstep::testing {

/// A small model and its moments; values are a function of (seed, tensor, element).
class Tensors {
 public:
  explicit Tensors(uint64_t seed = 0, bool filled = true) {
    add(content.model, "transformer.wte.weight", {5, 4});
    add(content.model, "transformer.ln_f.weight", {4});
    add(content.optimizer, "exp_avg.transformer.wte.weight", {5, 4});
    add(content.optimizer, "exp_avg_sq.transformer.wte.weight", {5, 4});
    for (size_t t = 0; filled && t < values_.size(); ++t) {
      const RandomStream random(seed, Purpose::kTest, static_cast<uint32_t>(t));
      for (size_t e = 0; e < values_[t]->size(); ++e) (*values_[t])[e] = static_cast<float>(random.normal(e));
    }
  }
  std::vector<float> all() const {
    std::vector<float> flat;
    for (const auto& tensor : values_) flat.insert(flat.end(), tensor->begin(), tensor->end());
    return flat;
  }

  CheckpointContent content;

 private:
  void add(std::vector<NamedTensor>& list, const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    values_.push_back(std::make_unique<std::vector<float>>(static_cast<size_t>(count)));
    list.push_back({name, std::move(shape), values_.back()->data()});
  }
  std::vector<std::unique_ptr<std::vector<float>>> values_;
};

/// What a run at `step` would save, into out/; the values differ from step to step.
Status save(FileSystem& files, int64_t step, int keep = 2);

/// Loads and compares with what save() wrote at that step.
void expect_whole(FileSystem& files, const CheckpointInfo& info);

/// list_checkpoints, the steps alone.
std::vector<int64_t> steps_of(FileSystem& files);

/// find_latest_valid_checkpoint with the warnings given back instead of logged.
Result<CheckpointInfo> find_quietly(FileSystem& files, std::vector<std::string>* warnings = nullptr);

}  // namespace lockstep::testing
