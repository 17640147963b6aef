#include "train/testing/small_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/random.h"

namespace lockstep::testing {

std::string some_text(uint64_t seed) {
  const RandomStream random(seed, Purpose::kTest);
  std::string text;
  for (uint64_t i = 0; i < 400; ++i) {
    text += static_cast<char>('a' + random.below(2 * i, 8));
    text += static_cast<char>('m' + random.below(2 * i + 1, 4));
    text += i % 7 == 6 ? '\n' : ' ';
  }
  return text;
}

Setting setting(const std::string& name, SettingValue value) {
  return {name, std::move(value), "--" + name, ""};
}

TrainRequest small_run() {
  TrainRequest request;
  request.recipe = "shakespeare-char-cpu";
  const std::pair<const char*, int64_t> sizes[] = {{"n_layer", 1},
                                                   {"n_head", 2},
                                                   {"n_embd", 16},
                                                   {"block_size", 16},
                                                   {"batch_size", 5},
                                                   {"max_iters", kSmallRunSteps},
                                                   {"warmup_iters", 2},
                                                   {"lr_decay_iters", kSmallRunSteps},
                                                   {"eval_interval", 4},
                                                   {"eval_iters", 1},
                                                   {"checkpoint_interval", 3},
                                                   {"threads", 1}};
  for (const auto& [name, value] : sizes) request.settings.push_back(setting(name, value));
  request.settings.push_back(setting("dropout", 0.1));
  request.settings.push_back(setting("data", std::string("text.txt")));
  request.settings.push_back(setting("out_dir", std::string("out")));
  request.allow_download = false;
  return request;
}

TrainRequest resumed_run() {
  TrainRequest request;
  request.resume = true;
  request.settings.push_back(setting("out_dir", std::string("out")));
  request.allow_download = false;
  return request;
}

Machine::Machine() {
  LOCKSTEP_CHECK(write_file_atomically(files, "text.txt", some_text(1)).is_ok());
  LOCKSTEP_CHECK(files.sync_directory("").is_ok());
}

Result<TrainSummary> Machine::run(const TrainRequest& request) {
  shown.clear();
  stop.store(0);
  TrainEnvironment environment{.files = files, .clock = real_clock(), .write = {}, .version = "test"};
  environment.write = [this](std::string_view text) {
    shown += text;
    if (!stop_at.empty() && shown.find(stop_at) != std::string::npos) stop.store(2);
  };
  environment.stop_signal = &stop;
  environment.measure_peak = false;
  return train(request, environment);
}

std::vector<nlohmann::json> Machine::events(const std::string& kind) const {
  std::vector<nlohmann::json> found;
  const std::string text = files.content("out/metrics.jsonl").value_or("");
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const auto line = nlohmann::json::parse(text.substr(begin, end - begin));
    if (line.at("event") == kind) found.push_back(line);
    begin = end + 1;
  }
  return found;
}

std::string Machine::tensors(int64_t step) const {
  const std::string folder = fmt::format("out/checkpoints/{}/", step);
  return files.content(folder + "model.safetensors").value_or("no model") +
         files.content(folder + "optimizer.safetensors").value_or("no optimizer");
}

Machine& undisturbed() {
  static Machine* const machine = [] {
    auto* made = new Machine;
    const auto summary = made->run(small_run());
    LOCKSTEP_CHECK(summary.is_ok()) << summary.status().message();
    return made;
  }();
  return *machine;
}

}  // namespace lockstep::testing
