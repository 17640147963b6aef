#include "base/cpu_topology.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "base/cgroup.h"

namespace lockstep {
namespace {

constexpr uint64_t kFileBytesMax = uint64_t{1} << 24;  // /proc/cpuinfo of the largest machines: about 1 MB
constexpr int kCpusMax = 1 << 16;

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::string_view(" \t\n").find(text.front()) != std::string_view::npos)
    text.remove_prefix(1);
  while (!text.empty() && std::string_view(" \t\n").find(text.back()) != std::string_view::npos)
    text.remove_suffix(1);
  return text;
}

/// A whole text as a number.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  text = trim(text);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Content without the newline; nothing when unreadable or empty.
std::optional<std::string> read_text(FileSystem& files, const std::string& path) {
  const auto content = files.read(path, kFileBytesMax);
  if (!content.is_ok()) return std::nullopt;
  const std::string_view text = trim(*content);
  if (text.empty()) return std::nullopt;
  return std::string(text);
}

std::vector<int> system_affinity() {
  for (int cpus_max = 1024; cpus_max <= kCpusMax; cpus_max *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpus_max));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus_max));
    std::vector<int> cpus;
    const bool ok = ::sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; ok && cpu < cpus_max; ++cpu)
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    CPU_FREE(set);
    if (ok && !cpus.empty()) return cpus;
  }
  return {0};
}

/// A text that names the core a CPU belongs to and is the same for the CPUs of one core.
std::optional<std::string> core_of(FileSystem& files, const std::string& root, int cpu) {
  const std::string topology = under_root(root, fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu));
  for (const char* name : {"core_cpus_list", "thread_siblings_list"})
    if (auto siblings = read_text(files, topology + name)) return siblings;
  const auto core = read_text(files, topology + "core_id");
  if (!core) return std::nullopt;
  // A core's number is only unique within its die.
  return fmt::format("package {} die {} core {}",
                     read_text(files, topology + "physical_package_id").value_or("0"),
                     read_text(files, topology + "die_id").value_or("0"), *core);
}

/// quota / period of one group in CPUs; nothing when unlimited or unreadable.
std::optional<double> quota_of(FileSystem& files, const CgroupDirectory& group) {
  std::optional<double> quota, period;
  if (group.version == 2) {
    const auto text = read_text(files, group.path + "/cpu.max");  // "150000 100000" or "max 100000"
    if (!text) return std::nullopt;
    const size_t space = text->find(' ');
    quota = parse_number<double>(std::string_view(*text).substr(0, space));
    period =
        space == std::string::npos ? 100000.0 : parse_number<double>(std::string_view(*text).substr(space));
  } else {
    quota = parse_number<double>(read_text(files, group.path + "/cpu.cfs_quota_us").value_or(""));
    period = parse_number<double>(read_text(files, group.path + "/cpu.cfs_period_us").value_or(""));
  }
  // Version 1 says -1 for "none".
  if (!quota || !period || !(*quota > 0.0) || !(*period > 0.0)) return std::nullopt;
  return *quota / *period;
}

int read_quota_cpus(FileSystem& files, const std::string& root) {
  std::optional<double> least;
  for (const CgroupDirectory& group : cgroup_directories(files, root, "cpu"))
    if (const auto quota = quota_of(files, group)) least = std::min(*quota, least.value_or(*quota));
  if (!least) return 0;
  return static_cast<int>(std::clamp(std::ceil(*least), 1.0, static_cast<double>(kCpusMax)));
}

/// Value of the first "key : value" line of /proc/cpuinfo whose key is one of `keys`, tried in that order.
std::string read_model_name(FileSystem& files, const std::string& root) {
  const std::string text = read_text(files, under_root(root, "/proc/cpuinfo")).value_or("");
  for (const std::string_view key : {"model name", "Model", "Hardware", "uarch"}) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      const size_t colon = line.find(':');
      if (colon != std::string_view::npos && trim(line.substr(0, colon)) == key &&
          !trim(line.substr(colon + 1)).empty())
        return std::string(trim(line.substr(colon + 1)));
      begin = end + 1;
    }
  }
  return "unknown CPU";
}

std::string plural(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::optional<double> mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  if (values.empty() || !(sum > 0.0)) return std::nullopt;
  return sum / static_cast<double>(values.size());
}

}  // namespace

int CpuTopology::default_threads() const {
  return std::max(1, quota_cpus > 0 ? std::min(physical, quota_cpus) : physical);
}

std::string CpuTopology::explain() const {
  std::string text = plural(physical, "physical core");
  if (logical != physical) text += fmt::format(" ({})", plural(logical, "hardware thread"));
  if (quota_cpus > 0 && quota_cpus < physical)
    text += fmt::format(", limited to {} by the control group's CPU quota", quota_cpus);
  return text;
}

CpuTopology read_cpu_topology(FileSystem& files, const std::string& root, std::vector<int> affinity) {
  if (affinity.empty()) affinity = system_affinity();
  std::sort(affinity.begin(), affinity.end());
  affinity.erase(std::unique(affinity.begin(), affinity.end()), affinity.end());

  CpuTopology topology;
  topology.cpus = affinity;
  const auto online =
      parse_cpu_list(read_text(files, under_root(root, "/sys/devices/system/cpu/online")).value_or(""));
  if (online) {
    std::erase_if(topology.cpus,
                  [&](int cpu) { return !std::binary_search(online->begin(), online->end(), cpu); });
    if (topology.cpus.empty()) topology.cpus = affinity;  // the two contradict: believe the scheduler
  }
  topology.logical = static_cast<int>(topology.cpus.size());

  std::set<std::string> cores;
  for (const int cpu : topology.cpus)
    cores.insert(core_of(files, root, cpu).value_or(fmt::format("unknown, cpu {}", cpu)));
  topology.physical = static_cast<int>(cores.size());
  topology.quota_cpus = read_quota_cpus(files, root);
  topology.model_name = read_model_name(files, root);
  return topology;
}

Result<ThreadChoice> choose_threads(const CpuTopology& topology, std::optional<int64_t> flag,
                                    const char* omp_num_threads) {
  ThreadChoice choice{.threads = topology.default_threads(), .reason = topology.explain(), .warning = {}};
  if (flag) {
    if (*flag < 1 || *flag > kThreadsMax)
      return Status(Code::kUsage,
                    fmt::format("cannot use --threads {}: it must lie in [1, {}]", *flag, kThreadsMax))
          .with_hint(fmt::format("leave it out to use {}", topology.explain()));
    choice.threads = static_cast<int>(*flag);
    choice.reason = "--threads";
  } else if (omp_num_threads != nullptr && *omp_num_threads != '\0') {
    const std::string_view text = omp_num_threads;
    const auto first = parse_number<int>(text.substr(0, text.find(',')));
    if (first && *first >= 1 && *first <= kThreadsMax) {
      choice.threads = *first;
      choice.reason = "OMP_NUM_THREADS";
    } else {
      choice.warning =
          fmt::format("OMP_NUM_THREADS={} is not a number of threads in [1, {}]: ignored", text, kThreadsMax);
    }
  }
  if (choice.threads > topology.logical)
    choice.warning = fmt::format("{} threads on {}: they will get in each other's way", choice.threads,
                                 plural(topology.logical, "CPU"));
  return choice;
}

std::optional<double> current_cpu_mhz(FileSystem& files, const std::vector<int>& cpus,
                                      const std::string& root) {
  // Some systems measure for a while per CPU that is asked (about 10 us each): a sample is enough.
  constexpr size_t kAskedMax = 8;
  std::vector<double> mhz;
  const size_t asked = std::min(cpus.size(), kAskedMax);
  for (size_t i = 0; i < asked; ++i) {
    const int cpu = cpus[i * cpus.size() / asked];
    const auto khz = read_text(
        files, under_root(root, fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", cpu)));
    const auto value = parse_number<double>(khz.value_or(""));
    if (!value) break;
    mhz.push_back(*value / 1000.0);
  }
  if (!mhz.empty()) return mean(mhz);

  const std::string text = read_text(files, under_root(root, "/proc/cpuinfo")).value_or("");
  constexpr std::string_view kKey = "cpu MHz";
  for (size_t at = text.find(kKey); at != std::string::npos; at = text.find(kKey, at + 1)) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t colon = text.find(':', at);
    if (colon >= end) continue;
    const auto value = parse_number<double>(std::string_view(text).substr(colon + 1, end - colon - 1));
    if (value) mhz.push_back(*value);
  }
  return mean(mhz);
}

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::set<int> cpus;
  text = trim(text);
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    const auto first = parse_number<int>(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kCpusMax) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
    if (comma == std::string_view::npos) return std::vector<int>(cpus.begin(), cpus.end());
    text.remove_prefix(comma + 1);
  }
  return std::nullopt;
}

}  // namespace lockstep
