// Reads nanoGPT's configuration files: a small recursive-descent evaluator of Python literals and arithmetic.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "train/setting.h"

namespace lockstep {
namespace {

constexpr int kNestingMax = 32;  ///< parentheses and signs; a configuration has one or two

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Evaluator {
 public:
  Evaluator(std::string_view text, const std::map<std::string, SettingValue>& names)
      : text_(text), names_(names) {}

  /// The whole text must be one expression, up to a comment.
  Result<SettingValue> run() {
    LOCKSTEP_ASSIGN(SettingValue value, sum());
    skip_space();
    if (at_ < text_.size() && text_[at_] != '#')
      return fail(fmt::format("do not understand '{}'", text_.substr(at_)));
    return value;
  }

 private:
  static Status fail(std::string cause) { return {Code::kUsage, std::move(cause)}; }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  bool take(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Result<SettingValue> sum() {
    LOCKSTEP_ASSIGN(SettingValue left, product());
    for (;;) {
      const bool plus = take("+");
      if (!plus && !take("-")) return left;
      LOCKSTEP_ASSIGN(const SettingValue right, product());
      LOCKSTEP_ASSIGN(left, apply(plus ? "+" : "-", left, right));
    }
  }

  Result<SettingValue> product() {
    LOCKSTEP_ASSIGN(SettingValue left, factor());
    for (;;) {
      skip_space();
      const std::string_view rest = text_.substr(at_);
      const char* operation = rest.starts_with("//")                             ? "//"
                              : rest.starts_with("*") && !rest.starts_with("**") ? "*"
                              : rest.starts_with("/")                            ? "/"
                                                                                 : nullptr;
      if (operation == nullptr) return left;
      take(operation);
      LOCKSTEP_ASSIGN(const SettingValue right, factor());
      LOCKSTEP_ASSIGN(left, apply(operation, left, right));
    }
  }

  Result<SettingValue> factor() {
    if (++nesting_ > kNestingMax) return fail("nested too deeply");
    if (take("-")) {
      LOCKSTEP_ASSIGN(const SettingValue value, factor());
      --nesting_;
      return apply("-", SettingValue(int64_t{0}), value);
    }
    if (take("+")) {
      LOCKSTEP_ASSIGN(const SettingValue value, factor());
      --nesting_;
      return apply("+", SettingValue(int64_t{0}), value);
    }
    LOCKSTEP_ASSIGN(SettingValue base, atom());
    if (take("**")) {
      LOCKSTEP_ASSIGN(const SettingValue exponent, factor());
      LOCKSTEP_ASSIGN(base, apply("**", base, exponent));
    }
    --nesting_;
    return base;
  }

  Result<SettingValue> atom() {
    skip_space();
    if (at_ >= text_.size() || text_[at_] == '#') return fail("a value is missing");
    const char c = text_[at_];
    if (take("(")) {
      LOCKSTEP_ASSIGN(SettingValue value, sum());
      if (!take(")")) return fail("a ')' is missing");
      return value;
    }
    if (c == '\'' || c == '"') return text_literal(c);
    if (is_digit(c) || c == '.') return number();
    if (is_name_start(c)) return name();
    return fail(fmt::format("do not understand '{}'", text_.substr(at_)));
  }

  Result<SettingValue> text_literal(char quote) {
    if (text_.substr(at_).starts_with(quote == '"' ? "\"\"\"" : "'''"))
      return fail("texts in triple quotes are not read");
    std::string value;
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      if (text_[i] == quote) {
        at_ = i + 1;
        return SettingValue(std::move(value));
      }
      if (text_[i] != '\\') {
        value += text_[i];
        continue;
      }
      if (++i == text_.size()) break;
      switch (text_[i]) {
        case 'n':
          value += '\n';
          break;
        case 't':
          value += '\t';
          break;
        case '\\':
        case '\'':
        case '"':
          value += text_[i];
          break;
        default:
          return fail(fmt::format("do not know the escape \\{} in a text", text_[i]));
      }
    }
    return fail("the closing quote is missing");
  }

  Result<SettingValue> number() {
    std::string digits;
    bool real = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool exponent_sign = (c == '+' || c == '-') && !digits.empty() && (digits.back() == 'e');
      if (c == '_' && !digits.empty()) {
        ++at_;
        continue;
      }
      if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !exponent_sign) break;
      real = real || !is_digit(c);
      digits += c == 'E' ? 'e' : c;
      ++at_;
    }
    if (at_ < text_.size() && is_name_start(text_[at_]))
      return fail(fmt::format("'{}{}' is not a number", digits, text_[at_]));
    const char* end = digits.data() + digits.size();
    if (!real) {
      int64_t value = 0;
      const auto [stop, error] = std::from_chars(digits.data(), end, value);
      if (error == std::errc() && stop == end) return SettingValue(value);
    } else {
      double value = 0.0;
      const auto [stop, error] = std::from_chars(digits.data(), end, value);
      if (error == std::errc() && stop == end) return SettingValue(value);
    }
    return fail(fmt::format("'{}' is not a number that fits", digits));
  }

  Result<SettingValue> name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (word == "True") return SettingValue(true);
    if (word == "False") return SettingValue(false);
    if (word == "None") return SettingValue();
    const auto known = names_.find(word);
    if (known != names_.end()) return known->second;
    return fail(fmt::format("'{}' is not set on an earlier line", word));
  }

  static Result<SettingValue> apply(std::string_view operation, const SettingValue& left,
                                    const SettingValue& right) {
    const auto* a = std::get_if<int64_t>(&left);
    const auto* b = std::get_if<int64_t>(&right);
    if (a != nullptr && b != nullptr && operation != "/") return apply_integers(operation, *a, *b);
    const std::optional<double> x = as_real(left), y = as_real(right);
    if (!x || !y)
      return fail(fmt::format("{} {} {}: only numbers can be calculated with", format_setting_value(left),
                              operation, format_setting_value(right)));
    if (operation == "+") return SettingValue(*x + *y);
    if (operation == "-") return SettingValue(*x - *y);
    if (operation == "*") return SettingValue(*x * *y);
    if (operation == "**") return SettingValue(std::pow(*x, *y));
    if (*y == 0.0) return fail("division by zero");
    return SettingValue(operation == "/" ? *x / *y : std::floor(*x / *y));
  }

  static Result<SettingValue> apply_integers(std::string_view operation, int64_t a, int64_t b) {
    int64_t value = 0;
    bool overflow = false;
    if (operation == "+") {
      overflow = __builtin_add_overflow(a, b, &value);
    } else if (operation == "-") {
      overflow = __builtin_sub_overflow(a, b, &value);
    } else if (operation == "*") {
      overflow = __builtin_mul_overflow(a, b, &value);
    } else if (operation == "**") {
      if (b < 0) return SettingValue(std::pow(static_cast<double>(a), static_cast<double>(b)));
      value = 1;
      // Above 63 only 0, 1 and -1 do not overflow, and they repeat with period 2.
      for (int64_t i = 0; i < (b > 64 ? 64 + b % 2 : b) && !overflow; ++i)
        overflow = __builtin_mul_overflow(value, a, &value);
    } else {
      if (b == 0) return fail("division by zero");
      if (b == -1) {
        overflow = __builtin_sub_overflow(int64_t{0}, a, &value);
      } else {
        value = a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);  // Python rounds down
      }
    }
    if (overflow) return fail(fmt::format("{} {} {} does not fit into 64 bits", a, operation, b));
    return SettingValue(value);
  }

  static std::optional<double> as_real(const SettingValue& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&value)) return *real;
    return std::nullopt;
  }

  std::string_view text_;
  const std::map<std::string, SettingValue>& names_;
  size_t at_ = 0;
  int nesting_ = 0;
};

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Splits "name = expression"; empty name when the line is something else.
std::pair<std::string, std::string_view> split_assignment(std::string_view line) {
  size_t i = 0;
  if (line.empty() || !is_name_start(line[0])) return {};
  while (i < line.size() && (is_name_start(line[i]) || is_digit(line[i]))) ++i;
  const std::string name(line.substr(0, i));
  while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
  if (i >= line.size() || line[i] != '=' || line.substr(i).starts_with("==")) return {};
  return {name, line.substr(i + 1)};
}

}  // namespace

Result<std::vector<Setting>> parse_nanogpt_settings(std::string_view text, const std::string& path) {
  std::vector<Setting> settings;
  std::map<std::string, SettingValue> names;
  int64_t line_number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++line_number;
    const std::string_view content = trim(line);
    if (content.empty() || content[0] == '#') continue;
    const std::string where = fmt::format("{}:{}", path, line_number);
    const auto refuse = [&](std::string_view cause) {
      return Status(Code::kUsage, fmt::format("cannot read configuration {}: {}", where, cause))
          .with_hint(
              "lockstep reads lines of the form name = value (numbers, texts, True, False, None, + - * / "
              "**); it does not run Python. Give other settings as flags.");
    };
    auto [name, expression] = split_assignment(content);
    if (name.empty() || line[0] == ' ' || line[0] == '\t')
      return refuse(fmt::format("'{}' is not of the form name = value", content));
    Result<SettingValue> value = Evaluator(expression, names).run();
    if (!value.is_ok()) return refuse(fmt::format("{}: {}", name, value.status().message()));
    names[name] = *value;
    settings.push_back({name, *value, where, ""});
  }
  return settings;
}

std::string format_setting_value(const SettingValue& value) {
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("'{}'", *text);
  return "none";
}

SettingValue guess_setting_value(std::string_view text) {
  if (text == "True" || text == "true") return SettingValue(true);
  if (text == "False" || text == "false") return SettingValue(false);
  if (text == "None") return {};
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  if (auto [stop, error] = std::from_chars(text.data(), end, integer); error == std::errc() && stop == end)
    return SettingValue(integer);
  double real = 0.0;
  if (auto [stop, error] = std::from_chars(text.data(), end, real); error == std::errc() && stop == end)
    return SettingValue(real);
  return SettingValue(std::string(text));
}

}  // namespace lockstep
