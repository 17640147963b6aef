#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <span>
#include <utility>

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kPlainInterval{5};
// Wide enough to see a per cent move (20 columns of eighths are 160 positions), narrow enough to leave an
// 80-column terminal the step, the loss, the speed and the time left.
constexpr size_t kBarColumnsMin = 5;
constexpr int kBarColumnsMax = 20;
constexpr int kColumnsDefault = 80;
constexpr std::string_view kGap = "  ";

bool is_known(double value) {
  return std::isfinite(value) && value > 0.0;
}

/// Three significant digits for 0 <= value < 1000.
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/// value in the largest unit that leaves at least 1; each unit is 1000 times the one before.
std::string in_units(double value, std::span<const std::string_view> units) {
  size_t unit = 0;
  // 999.5 would be printed as 1000: it belongs to the next unit.
  for (; unit + 1 < units.size() && value >= 999.5; ++unit) value /= 1000.0;
  return fmt::format("{}{}", unit == 0 || value >= 999.5 ? fmt::format("{:.0f}", value) : three_digits(value),
                     units[unit]);
}

/// One field of the text, in full and as short as it can be understood.
struct Field {
  std::string full;
  std::string brief;
};

/// The fields of the text, most important first.
std::vector<Field> train_fields(const TrainProgress& progress) {
  std::vector<Field> fields;
  const auto add = [&](const std::string& text) { fields.push_back({text, text}); };
  const std::string steps = fmt::format("{}/{}", progress.step, progress.steps);
  fields.push_back({"step " + steps, steps});
  if (progress.loss != 0.0) add(fmt::format("loss {:.4f}", progress.loss));
  if (is_known(progress.tokens_per_s)) add(fmt::format("{} tok/s", format_rate(progress.tokens_per_s)));
  if (is_known(progress.remaining_s)) add(fmt::format("{} left", format_duration(progress.remaining_s)));
  if (is_known(progress.gflops)) {
    const std::string gflops = three_digits(progress.gflops) + " GFLOP/s";
    if (is_known(progress.gemm_peak_gflops)) {
      const double percent = 100.0 * progress.gflops / progress.gemm_peak_gflops;
      fields.push_back({fmt::format("{} ({:.0f}% of GEMM peak)", gflops, percent),
                        fmt::format("{} ({:.0f}%)", gflops, percent)});
    } else {
      add(gflops);
    }
  }
  if (is_known(progress.eval_share)) {
    const double percent = 100.0 * progress.eval_share;
    fields.push_back({fmt::format("eval {:.0f}% of time", percent), fmt::format("eval {:.0f}%", percent)});
  }
  return fields;
}

/// The first `count` fields in one line.
std::string join_fields(std::span<const Field> fields, bool brief) {
  std::string text;
  for (const Field& field : fields)
    text.append(text.empty() ? "" : kGap).append(brief ? field.brief : field.full);
  return text;
}

double done_fraction(const TrainProgress& progress) {
  if (progress.steps <= 0) return 0.0;
  return std::clamp(static_cast<double>(progress.step) / static_cast<double>(progress.steps), 0.0, 1.0);
}

/// `columns` cells, filled from the left; UTF-8 has eighths of a cell.
std::string draw_bar(double fraction, int columns, bool utf8) {
  constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int parts = utf8 ? 8 : 1;
  const int filled = static_cast<int>(fraction * columns * parts);  // rounds down: full means done
  std::string bar;
  for (int i = 0; i < filled / parts; ++i) bar += utf8 ? "█" : "#";
  int used = filled / parts;
  if (filled % parts != 0) {
    bar += kEighths[static_cast<size_t>(filled % parts)];
    ++used;
  }
  return bar.append(static_cast<size_t>(columns - used), utf8 ? ' ' : '.');
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0.0) return "unknown";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (seconds < 59.5) return fmt::format("{:.0f} s", seconds);
  // More than 10^15 s is no duration that anybody waits for; it would not fit below.
  const int64_t whole_s = std::llround(std::min(seconds, 1e15));
  if (whole_s < 3600) return fmt::format("{} min {:02} s", whole_s / 60, whole_s % 60);
  const int64_t minutes = (whole_s + 30) / 60;
  if (minutes < 24 * 60) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  const int64_t hours = (minutes + 30) / 60;
  return fmt::format("{} d {:02} h", hours / 24, hours % 24);
}

std::string format_bytes(double bytes) {
  constexpr std::array<std::string_view, 6> kUnits{" B", " kB", " MB", " GB", " TB", " PB"};
  return std::isfinite(bytes) && bytes >= 0.0 ? in_units(bytes, kUnits) : "unknown";
}

std::string format_millions(double count) {
  return fmt::format("{:.2f}M", count / 1e6);
}

std::string format_rate(double per_second) {
  constexpr std::array<std::string_view, 4> kUnits{"", "k", "M", "G"};
  return std::isfinite(per_second) && per_second >= 0.0 ? in_units(per_second, kUnits) : "unknown";
}

std::string format_train_progress(const TrainProgress& progress) {
  return join_fields(train_fields(progress), false);
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string folded(value);
    std::transform(folded.begin(), folded.end(), folded.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return folded.find("utf-8") != std::string::npos || folded.find("utf8") != std::string::npos;
  }
  return false;
}

int terminal_columns() {
  for (const int fd : {STDERR_FILENO, STDOUT_FILENO}) {
    winsize size{};
    if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  }
  const char* text = std::getenv("COLUMNS");
  const int columns = text == nullptr ? 0 : std::atoi(text);
  return columns > 0 ? columns : kColumnsDefault;
}

ProgressDisplay::ProgressDisplay(std::function<void(std::string_view)> write, Clock& clock, bool terminal,
                                 int width, bool utf8, std::function<int()> measure_width)
    : write_(std::move(write)),
      clock_(clock),
      terminal_(terminal),
      width_(width),
      utf8_(utf8),
      measure_width_(std::move(measure_width)) {}

void ProgressDisplay::update(const TrainProgress& progress) {
  progress_ = progress;
  pending_ = true;
  const std::chrono::nanoseconds interval =
      terminal_ ? std::chrono::nanoseconds(kTerminalInterval) : std::chrono::nanoseconds(kPlainInterval);
  if (!drawn_ || clock_.now() - last_drawn_ >= interval) draw();
}

void ProgressDisplay::print_line(const std::string& line) {
  if (terminal_ && drawn_) write_("\r\x1b[K");
  write_(line + "\n");
  if (terminal_ && drawn_) draw();
}

void ProgressDisplay::finish() {
  if (pending_) draw();
  if (terminal_ && drawn_) write_("\n");
  drawn_ = false;
}

void ProgressDisplay::draw() {
  if (terminal_) {
    // A terminal that wraps does so when the last column is written: stay one short of it.
    const int columns = width_ > 0 ? width_ : measure_width_();
    write_(fmt::format("\r{}\x1b[K", bar_line(columns - 1)));
  } else {
    write_(format_train_progress(progress_) + "\n");
  }
  drawn_ = true;
  pending_ = false;
  last_drawn_ = clock_.now();
}

std::string ProgressDisplay::bar_line(int columns) const {
  const std::vector<Field> fields = train_fields(progress_);
  const double fraction = done_fraction(progress_);
  const auto room = static_cast<size_t>(std::max(columns, 0));
  const auto with_bar = [&](const std::string& before_text, const std::string& text) {
    const auto spare = static_cast<int>(room - before_text.size() - text.size());
    return draw_bar(fraction, std::min(kBarColumnsMax, spare), utf8_) + before_text + text;
  };

  // In full with the percentage; else in brief without it, and then without the last fields, one by one.
  const std::string percent = fmt::format(" {:3.0f}%  ", std::floor(100.0 * fraction));
  const std::string full = join_fields(fields, false);
  if (kBarColumnsMin + percent.size() + full.size() <= room) return with_bar(percent, full);
  const std::string gap(kGap);
  std::string brief;
  for (size_t count = fields.size(); count > 0; --count) {
    brief = join_fields(std::span(fields).first(count), true);
    if (kBarColumnsMin + gap.size() + brief.size() <= room) return with_bar(gap, brief);
  }
  return brief.substr(0, room);
}

}  // namespace lockstep
