#include "train/setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::HasSubstr;

SettingValue only_value(std::string_view text) {
  auto settings = parse_nanogpt_settings(text, "c.py");
  EXPECT_TRUE(settings.is_ok()) << settings.status().message();
  return settings.is_ok() && !settings->empty() ? settings->back().value : SettingValue();
}

TEST(NanogptSettings, ReadsLiterals) {
  EXPECT_EQ(only_value("a = 12"), SettingValue(int64_t{12}));
  EXPECT_EQ(only_value("a=-3"), SettingValue(int64_t{-3}));
  EXPECT_EQ(only_value("a = 1_000_000"), SettingValue(int64_t{1000000}));
  EXPECT_EQ(only_value("a = 6e-4  # baby networks"), SettingValue(6e-4));
  EXPECT_EQ(only_value("a = 0.99"), SettingValue(0.99));
  EXPECT_EQ(only_value("a = .5"), SettingValue(0.5));
  EXPECT_EQ(only_value("a = True"), SettingValue(true));
  EXPECT_EQ(only_value("a = False # no"), SettingValue(false));
  EXPECT_EQ(only_value("a = None"), SettingValue());
  EXPECT_EQ(only_value("a = 'out-shakespeare # char'"), SettingValue(std::string("out-shakespeare # char")));
  EXPECT_EQ(only_value("a = \"it's\\n\""), SettingValue(std::string("it's\n")));
}

TEST(NanogptSettings, CalculatesLikePython) {
  EXPECT_EQ(only_value("a = 5 * 8"), SettingValue(int64_t{40}));
  EXPECT_EQ(only_value("a = 2 + 3 * (4 - 1) ** 2"), SettingValue(int64_t{29}));
  EXPECT_EQ(only_value("a = -2 ** 2"), SettingValue(int64_t{-4}));
  EXPECT_EQ(only_value("a = -7 // 2"), SettingValue(int64_t{-4}));
  EXPECT_EQ(only_value("a = 7 / 2"), SettingValue(3.5));
  EXPECT_EQ(only_value("a = 2 ** 3 ** 2"), SettingValue(int64_t{512}));
  EXPECT_EQ(only_value("batch = 12\na = batch * 2"), SettingValue(int64_t{24}));
  EXPECT_EQ(only_value("lr = 1e-3\r\nmin_lr = lr / 10"), SettingValue(1e-3 / 10));
}

TEST(NanogptSettings, NamesTheLineOfWhatItRefuses) {
  const std::pair<const char*, const char*> cases[] = {
      {"a = 1\nprint('hello')\n", "c.py:2: 'print('hello')' is not of the form"},
      {"import time", "c.py:1: 'import time'"},
      {"a = 1\n\n  b = 2", "c.py:3:"},
      {"a = time.time()", "'time' is not set on an earlier line"},
      {"a = 'open", "closing quote"},
      {"a = ", "a value is missing"},
      {"a = (1 + 2", "')' is missing"},
      {"a = 1 2", "do not understand '2'"},
      {"a = 12abc", "not a number"},
      {"a = 'x' * 2", "only numbers"},
      {"a = 1 // 0", "division by zero"},
      {"a = 1 / 0", "division by zero"},
      {"a = 9223372036854775807 + 1", "does not fit"},
      {"a = 10 ** 100", "does not fit"},
      {"a = 99999999999999999999", "not a number that fits"},
      {"a == 1", "not of the form"},
      {"a += 1", "not of the form"},
      {"a = '\\q'", "escape"},
      {"a = \"\"\"x\"\"\"", "triple"},
  };
  for (const auto& [text, message] : cases) {
    const auto result = parse_nanogpt_settings(text, "c.py");
    ASSERT_FALSE(result.is_ok()) << text;
    EXPECT_EQ(result.status().code(), Code::kUsage);
    EXPECT_THAT(result.status().message(), HasSubstr(message)) << text;
  }
}

TEST(NanogptSettings, DeepNestingIsAnErrorNotACrash) {
  const std::string text = "a = " + std::string(100000, '(') + "1" + std::string(100000, ')');
  EXPECT_FALSE(parse_nanogpt_settings(text, "c.py").is_ok());
  EXPECT_FALSE(parse_nanogpt_settings("a = " + std::string(100000, '-') + "1", "c.py").is_ok());
}

TEST(TomlSettings, GivesValuesWithSectionsAndLines) {
  const auto settings = parse_toml_settings("x = 1\n[model]\nn_layer = 4\ndropout = 0.5\n", "r.toml");
  ASSERT_TRUE(settings.is_ok()) << settings.status().message();
  ASSERT_EQ(settings->size(), 3u);
  for (const Setting& setting : *settings) {
    if (setting.name != "n_layer") continue;
    EXPECT_EQ(setting.section, "model");
    EXPECT_EQ(setting.where, "r.toml:3");
    EXPECT_EQ(setting.value, SettingValue(int64_t{4}));
  }
}

TEST(TomlSettings, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"a = 1\nb = = 2", "r.toml:2"}, {"a = [1, 2]", "a must be"}, {"[m]\na = 1979-05-27", "r.toml:2"}};
  for (const auto& [text, message] : cases) {
    const auto result = parse_toml_settings(text, "r.toml");
    ASSERT_FALSE(result.is_ok()) << text;
    EXPECT_THAT(result.status().message(), HasSubstr(message));
  }
}

TEST(GuessSettingValue, FollowsTheText) {
  EXPECT_EQ(guess_setting_value("12"), SettingValue(int64_t{12}));
  EXPECT_EQ(guess_setting_value("1e3"), SettingValue(1000.0));
  EXPECT_EQ(guess_setting_value("True"), SettingValue(true));
  EXPECT_EQ(guess_setting_value("12x"), SettingValue(std::string("12x")));
  EXPECT_EQ(guess_setting_value(""), SettingValue(std::string()));
}

}  // namespace
}  // namespace lockstep
