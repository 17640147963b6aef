#include "report/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "base/testing/fake_clock.h"

namespace lockstep {
namespace {

using testing::FakeClock;
using namespace std::chrono_literals;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(FormatDuration, Everywhere) {
  EXPECT_EQ(format_duration(0.0), "0.0 s");
  EXPECT_EQ(format_duration(0.84), "0.8 s");
  EXPECT_EQ(format_duration(9.94), "9.9 s");
  EXPECT_EQ(format_duration(9.96), "10 s");
  EXPECT_EQ(format_duration(12.4), "12 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(59.6), "1 min 00 s");
  EXPECT_EQ(format_duration(200), "3 min 20 s");
  EXPECT_EQ(format_duration(3599.4), "59 min 59 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 00 min");
  EXPECT_EQ(format_duration(3720), "1 h 02 min");
  EXPECT_EQ(format_duration(86399), "1 d 00 h");
  EXPECT_EQ(format_duration(86400 * 2 + 3600 * 5), "2 d 05 h");
  EXPECT_EQ(format_duration(1e300), "11574074074 d 02 h");
  EXPECT_EQ(format_duration(-1), "unknown");
  EXPECT_EQ(format_duration(kNan), "unknown");
  EXPECT_EQ(format_duration(kInf), "unknown");
}

TEST(FormatBytes, ThreeDigitsAndDecimalUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(12), "12 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(789e3), "789 kB");
  EXPECT_EQ(format_bytes(999.6e3), "1.00 MB");
  EXPECT_EQ(format_bytes(45.6e6), "45.6 MB");
  EXPECT_EQ(format_bytes(99.96e6), "100 MB");
  EXPECT_EQ(format_bytes(9.999e6), "10.0 MB");
  EXPECT_EQ(format_bytes(1.234e9), "1.23 GB");
  EXPECT_EQ(format_bytes(5e18), "5000 PB");
  EXPECT_EQ(format_bytes(kNan), "unknown");
}

TEST(FormatMillions, AsNanoGptPrintsIt) {
  EXPECT_EQ(format_millions(10646784), "10.65M");
  EXPECT_EQ(format_millions(795904), "0.80M");
  EXPECT_EQ(format_millions(123587328), "123.59M");
}

TEST(FormatRate, ThreeDigits) {
  EXPECT_EQ(format_rate(0), "0");
  EXPECT_EQ(format_rate(950), "950");
  EXPECT_EQ(format_rate(19834), "19.8k");
  EXPECT_EQ(format_rate(1234567), "1.23M");
}

TrainProgress example() {
  return {.step = 720,
          .steps = 2000,
          .loss = 2.10339,
          .tokens_per_s = 19834,
          .gflops = 91.23,
          .gemm_peak_gflops = 105,
          .remaining_s = 200,
          .eval_share = 0.041};
}

TEST(FormatTrainProgress, AllFields) {
  EXPECT_EQ(format_train_progress(example()),
            "step 720/2000  loss 2.1034  19.8k tok/s  3 min 20 s left  91.2 GFLOP/s (87% of GEMM peak)  eval "
            "4% of time");
}

TEST(FormatTrainProgress, UnknownFieldsAreLeftOut) {
  TrainProgress progress;
  progress.step = 1;
  progress.steps = 10;
  EXPECT_EQ(format_train_progress(progress), "step 1/10");
  progress.tokens_per_s = kNan;
  progress.remaining_s = kInf;
  progress.gflops = kNan;
  progress.loss = kNan;
  EXPECT_EQ(format_train_progress(progress), "step 1/10  loss nan");
  progress.loss = kInf;
  progress.gflops = 1234;
  EXPECT_EQ(format_train_progress(progress), "step 1/10  loss inf  1234 GFLOP/s");
}

/// Columns of a text whose characters are all one column wide.
size_t columns_of(std::string_view utf8) {
  size_t columns = 0;
  for (const char c : utf8) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return columns;
}

class Display : public ::testing::Test {
 protected:
  ProgressDisplay make(bool terminal, int width, bool utf8 = false) {
    return ProgressDisplay([this](std::string_view text) { out_ += text; }, clock_, terminal, width, utf8,
                           [this] { return measured_width_; });
  }
  std::string take() { return std::exchange(out_, ""); }
  TrainProgress at(int64_t step) {
    return {.step = step, .steps = 2000, .loss = 2.5, .tokens_per_s = 1000, .remaining_s = 20};
  }

  FakeClock clock_;
  std::string out_;
  int measured_width_ = 80;
};

TEST_F(Display, PlainLinesFirstLastAndEveryFiveSeconds) {
  ProgressDisplay display = make(false, 80);
  display.update(at(1));
  EXPECT_EQ(take(), "step 1/2000  loss 2.5000  1.00k tok/s  20 s left\n");
  clock_.advance(4999ms);
  display.update(at(2));
  EXPECT_EQ(take(), "");
  clock_.advance(1ms);
  display.update(at(3));
  EXPECT_EQ(take(), "step 3/2000  loss 2.5000  1.00k tok/s  20 s left\n");
  clock_.advance(1s);
  display.update(at(4));
  display.print_line("saved");
  EXPECT_EQ(take(), "saved\n");
  display.finish();
  EXPECT_EQ(take(), "step 4/2000  loss 2.5000  1.00k tok/s  20 s left\n");
  display.finish();
  EXPECT_EQ(take(), "");
}

TEST_F(Display, ThePlainLastLineIsNotRepeated) {
  ProgressDisplay display = make(false, 80);
  display.update(at(1));
  take();
  display.finish();
  EXPECT_EQ(take(), "");
}

TEST_F(Display, NothingWithoutAnUpdate) {
  for (const bool terminal : {false, true}) {
    ProgressDisplay display = make(terminal, 80);
    display.finish();
    EXPECT_EQ(take(), "");
    display.print_line("hello");
    EXPECT_EQ(take(), "hello\n");
  }
}

TEST_F(Display, TerminalRedrawsInPlaceTenTimesASecond) {
  ProgressDisplay display = make(true, 80);
  display.update(at(500));
  EXPECT_EQ(take(), "\r#####...............  25%  step 500/2000  loss 2.5000  1.00k tok/s  20 s left\x1b[K");
  clock_.advance(99ms);
  display.update(at(501));
  EXPECT_EQ(take(), "");
  clock_.advance(1ms);
  display.update(at(1000));
  EXPECT_EQ(take(), "\r##########..........  50%  step 1000/2000  loss 2.5000  1.00k tok/s  20 s left\x1b[K");
  display.update(at(2000));
  EXPECT_EQ(take(), "");
  display.finish();
  EXPECT_EQ(take(),
            "\r#################### 100%  step 2000/2000  loss 2.5000  1.00k tok/s  20 s left\x1b[K\n");
}

TEST_F(Display, TerminalPrintsLinesAboveTheBar) {
  ProgressDisplay display = make(true, 80);
  display.update(at(500));
  take();
  clock_.advance(1ms);
  display.update(at(1000));
  display.print_line("step 1000: val loss 2.5");
  EXPECT_EQ(take(),
            "\r\x1b[Kstep 1000: val loss 2.5\n"
            "\r##########..........  50%  step 1000/2000  loss 2.5000  1.00k tok/s  20 s left\x1b[K");
  display.finish();
  EXPECT_EQ(take(), "\n");
}

TEST_F(Display, EighthsOfACellInUtf8) {
  ProgressDisplay display = make(true, 80, true);
  display.update(at(720));  // 36 % of 20 cells = 7.2 cells
  EXPECT_EQ(take(), "\r███████▏              36%  step 720/2000  loss 2.5000  1.00k tok/s  20 s left\x1b[K");
}

TEST_F(Display, EightyColumnsHoldLossSpeedTimeAndGflops) {
  ProgressDisplay display = make(true, 80);
  display.update(example());
  EXPECT_EQ(take(),
            "\r##....  720/2000  loss 2.1034  19.8k tok/s  3 min 20 s left  91.2 GFLOP/s (87%)\x1b[K");
}

TEST_F(Display, NeverAsWideAsTheTerminal) {
  // The smallest bar of five cells, " 36%" and its gaps, and the text in full.
  const int full = static_cast<int>(5 + 7 + format_train_progress(example()).size());
  for (const bool utf8 : {false, true})
    for (int width = 1; width <= 200; ++width) {
      ProgressDisplay display = make(true, width, utf8);
      display.update(example());
      const std::string out = take();
      ASSERT_TRUE(out.starts_with("\r") && out.ends_with("\x1b[K")) << width;
      const std::string line = out.substr(1, out.size() - 4);
      EXPECT_LT(columns_of(line), static_cast<size_t>(std::max(width, 2))) << width << ' ' << line;
      EXPECT_EQ(line.find("720/2000") != std::string::npos, width >= 9) << width << ' ' << line;
      EXPECT_EQ(line.find("eval 4% of time") != std::string::npos, width > full) << width << ' ' << line;
    }
}

TEST_F(Display, AWidthOfZeroFollowsTheWindow) {
  ProgressDisplay display = make(true, 0);
  measured_width_ = 100;
  display.update(at(500));
  const size_t wide = columns_of(take());
  measured_width_ = 30;
  clock_.advance(1s);
  display.update(at(501));
  const size_t narrow = columns_of(take());
  EXPECT_GT(wide, 60u);
  EXPECT_LE(narrow, 29u + 4u);  // and the control characters
}

TEST_F(Display, StepsBeyondTheEndDoNotOverflowTheBar) {
  ProgressDisplay display = make(true, 80);
  TrainProgress progress = at(3000);
  display.update(progress);
  EXPECT_EQ(take(), "\r#################### 100%  step 3000/2000  loss 2.5000  1.00k tok/s  20 s left\x1b[K");
  progress.steps = 0;
  clock_.advance(1s);
  display.update(progress);
  EXPECT_EQ(take(), "\r....................   0%  step 3000/0  loss 2.5000  1.00k tok/s  20 s left\x1b[K");
}

TEST_F(Display, ANewDisplayBeginsAfterFinish) {
  ProgressDisplay display = make(false, 80);
  display.update(at(1));
  display.finish();
  take();
  display.update(at(2));
  EXPECT_EQ(take(), "step 2/2000  loss 2.5000  1.00k tok/s  20 s left\n");
}

/// Sets or clears a variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~ScopedVariable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(LocaleIsUtf8, TheFirstVariableThatIsSetDecides) {
  struct Case {
    const char *all, *ctype, *lang;
    bool expected;
  };
  for (const Case& c : {Case{nullptr, nullptr, nullptr, false}, Case{nullptr, nullptr, "en_US.UTF-8", true},
                        Case{nullptr, "de_DE.utf8", "C", true}, Case{"C", "de_DE.utf8", "en_US.UTF-8", false},
                        Case{"", "", "C.UTF-8", true}, Case{"POSIX", nullptr, nullptr, false}}) {
    const ScopedVariable all("LC_ALL", c.all), ctype("LC_CTYPE", c.ctype), lang("LANG", c.lang);
    EXPECT_EQ(locale_is_utf8(), c.expected);
  }
}

TEST(TerminalColumns, IsNeverNonsense) {
  for (const char* text : {"0", "-5", "x", ""}) {
    const ScopedVariable columns("COLUMNS", text);
    EXPECT_GT(terminal_columns(), 0);
  }
}

}  // namespace
}  // namespace lockstep
