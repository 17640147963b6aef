#include "report/metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;  // fields stand in the order in which people read them

constexpr std::string_view kFileName = "metrics.jsonl";

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// The line's "step", if it is an object that has one.
std::optional<int64_t> step_of_line(std::string_view line) {
  const Json parsed = Json::parse(line, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  const auto it = parsed.find("step");
  if (it == parsed.end() || !it->is_number_integer()) return std::nullopt;
  return it->get<int64_t>();
}

/// How many bytes of the file to keep: whole lines, up to the first that is about a step after resume_step.
/// Looks from the end, because a file in which steps stand once has its later steps there: the first line of
/// an earlier step ends the search, whatever the size of the file.
uint64_t bytes_to_keep(std::string_view content, std::optional<int64_t> resume_step) {
  size_t end = content.rfind('\n') + 1;  // npos + 1 is 0: not one whole line
  size_t keep = end;
  if (!resume_step) return keep;
  while (end > 0) {
    const size_t begin = end >= 2 ? content.rfind('\n', end - 2) + 1 : 0;
    const auto step = step_of_line(content.substr(begin, end - begin));
    if (step && *step <= *resume_step) break;
    if (step) keep = begin;
    end = begin;
  }
  return keep;
}

Json step_json(const StepEvent& event) {
  Json rows = Json::array(), samples = Json::array(), compute_ms = Json::array(), wait_ms = Json::array(),
       cpu_mhz = Json::array();
  for (const RankStep& rank : event.ranks) {
    rows.push_back(rank.rows);
    Json intervals = Json::array();
    for (const auto& [begin, end] : rank.samples) intervals.push_back(Json::array({begin, end}));
    samples.push_back(std::move(intervals));
    compute_ms.push_back(rank.compute_ms);
    wait_ms.push_back(rank.wait_ms);
    cpu_mhz.push_back(or_null(rank.cpu_mhz));
  }
  return Json{{"event", "step"},
              {"step", event.step},
              {"loss", event.loss},
              {"lr", event.lr},
              {"grad_norm", event.grad_norm},
              {"tokens", event.tokens},
              {"step_ms", event.step_ms},
              {"tokens_per_s", event.tokens_per_s},
              {"lineage", event.lineage},
              {"generation", event.generation},
              {"world_size", event.world_size},
              {"rows", std::move(rows)},
              {"samples", std::move(samples)},
              {"compute_ms", std::move(compute_ms)},
              {"wait_ms", std::move(wait_ms)},
              {"cpu_mhz", std::move(cpu_mhz)},
              {"comm_ms", event.comm_ms},
              {"comm_exposed_ms", event.comm_exposed_ms},
              {"comm_bytes", event.comm_bytes},
              {"comm_predicted_ms", or_null(event.comm_predicted_ms)},
              {"params_hash", or_null(event.params_hash)},
              {"t_unix_s", event.t_unix_s}};
}

}  // namespace

MetricsWriter::MetricsWriter(FileSystem& files, std::string path, std::unique_ptr<WritableFile> file,
                             uint64_t bytes)
    : files_(&files), path_(std::move(path)), file_(std::move(file)), bytes_(bytes) {}
MetricsWriter::MetricsWriter(MetricsWriter&&) noexcept = default;
MetricsWriter& MetricsWriter::operator=(MetricsWriter&&) noexcept = default;
MetricsWriter::~MetricsWriter() = default;

Result<MetricsWriter> MetricsWriter::open(FileSystem& files, const std::string& out_dir,
                                          std::optional<int64_t> resume_step) {
  const std::string path = out_dir + "/" + std::string(kFileName);
  const auto open_file = [&]() -> Result<MetricsWriter> {
    LOCKSTEP_TRY(create_directories_durably(files, out_dir));
    uint64_t keep = 0;
    if (files.exists(path)) {
      uint64_t bytes = 0;
      {
        LOCKSTEP_ASSIGN(const std::unique_ptr<MappedFile> mapping, files.map(path));
        const auto content = mapping->bytes();
        bytes = content.size();
        keep = bytes_to_keep({reinterpret_cast<const char*>(content.data()), content.size()}, resume_step);
      }
      if (keep < bytes) LOCKSTEP_TRY(files.truncate(path, keep));
    }
    LOCKSTEP_ASSIGN(std::unique_ptr<WritableFile> file, files.open_append(path));
    return MetricsWriter(files, path, std::move(file), keep);
  };
  auto opened = open_file();
  if (!opened.is_ok()) return std::move(opened).status().with_context("cannot continue the metrics");
  return opened;
}

Status MetricsWriter::write_line(const nlohmann::ordered_json& line) {
  // Names of files and hosts may be anything; a line that is not UTF-8 would break its readers.
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (torn_) LOCKSTEP_TRY(files_->truncate(path_, bytes_));
  torn_ = true;
  LOCKSTEP_TRY(file_->append(std::string_view(text)));
  torn_ = false;
  bytes_ += text.size();
  return Status::ok();
}

Status MetricsWriter::write_run(const nlohmann::json& run, double t_unix_s) {
  LOCKSTEP_CHECK(run.is_object());
  Json line{{"event", "run"}, {"t_unix_s", t_unix_s}};
  for (const auto& [key, value] : run.items())
    if (!line.contains(key)) line[key] = value;
  return write_line(line);
}

Status MetricsWriter::write_step(const StepEvent& event) {
  LOCKSTEP_CHECK_EQ(event.ranks.size(), static_cast<size_t>(event.world_size));
  return write_line(step_json(event));
}

Status MetricsWriter::write_eval(const EvalEvent& event, double t_unix_s) {
  return write_line(Json{{"event", "eval"},
                         {"step", event.step},
                         {"train_loss", or_null(event.train_loss)},
                         {"val_loss", event.val_loss},
                         {"tokens", event.tokens},
                         {"eval_ms", event.eval_ms},
                         {"full", event.full},
                         {"t_unix_s", t_unix_s}});
}

Status MetricsWriter::write_checkpoint(int64_t step, const std::string& path, double save_ms,
                                       double t_unix_s) {
  return write_line(Json{
      {"event", "checkpoint"}, {"step", step}, {"path", path}, {"save_ms", save_ms}, {"t_unix_s", t_unix_s}});
}

Status MetricsWriter::write_end(int64_t step, const std::string& reason, double t_unix_s) {
  return write_line(Json{{"event", "end"}, {"step", step}, {"reason", reason}, {"t_unix_s", t_unix_s}});
}

}  // namespace lockstep
