#include "data/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <unordered_map>

#include "data/utf8.h"

namespace lockstep {
namespace {

// The opcodes by their byte, as Python's pickletools prints them; for messages about what is refused.
struct OpcodeName {
  unsigned char byte;
  std::string_view name;
};
constexpr OpcodeName kRefused[] = {{'c', "GLOBAL"},       {0x93, "STACK_GLOBAL"},
                                   {'R', "REDUCE"},       {'b', "BUILD"},
                                   {'i', "INST"},         {'o', "OBJ"},
                                   {0x81, "NEWOBJ"},      {0x92, "NEWOBJ_EX"},
                                   {0x82, "EXT1"},        {0x83, "EXT2"},
                                   {0x84, "EXT4"},        {'P', "PERSID"},
                                   {'Q', "BINPERSID"},    {'0', "POP"},
                                   {'1', "POP_MARK"},     {'2', "DUP"},
                                   {'F', "FLOAT"},        {'G', "BINFLOAT"},
                                   {'N', "NONE"},         {0x88, "NEWTRUE"},
                                   {0x89, "NEWFALSE"},    {'S', "STRING"},
                                   {'T', "BINSTRING"},    {'U', "SHORT_BINSTRING"},
                                   {'B', "BINBYTES"},     {'C', "SHORT_BINBYTES"},
                                   {0x8e, "BINBYTES8"},   {0x96, "BYTEARRAY8"},
                                   {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
                                   {'l', "LIST"},         {']', "EMPTY_LIST"},
                                   {'a', "APPEND"},       {'e', "APPENDS"},
                                   {'t', "TUPLE"},        {')', "EMPTY_TUPLE"},
                                   {0x85, "TUPLE1"},      {0x86, "TUPLE2"},
                                   {0x87, "TUPLE3"},      {0x8f, "EMPTY_SET"},
                                   {0x90, "ADDITEMS"},    {0x91, "FROZENSET"},
                                   {0x8b, "LONG4"}};

class Interpreter {
 public:
  explicit Interpreter(std::string_view bytes) : bytes_(bytes) {}

  Result<Pickle> run() {
    while (offset_ < bytes_.size()) {
      opcode_at_ = offset_;
      const auto opcode = static_cast<unsigned char>(bytes_[offset_++]);
      if (opcode == '.') return finish();
      LOCKSTEP_TRY(execute(opcode));
    }
    opcode_at_ = offset_;
    return fail("the file ends before STOP");
  }

 private:
  static constexpr PickleIndex kMark = std::numeric_limits<PickleIndex>::max();

  Status fail(std::string reason) const {
    return {Code::kData, fmt::format("not a pickle that lockstep reads: byte offset {}: {}", opcode_at_,
                                     std::move(reason))};
  }

  Result<Pickle> finish() {
    if (offset_ != bytes_.size()) return fail(fmt::format("{} bytes follow STOP", bytes_.size() - offset_));
    if (stack_.size() != 1 || stack_[0] == kMark)
      return fail(fmt::format("{} entries are on the stack at STOP instead of one value", stack_.size()));
    pickle_.root = stack_[0];
    return std::move(pickle_);
  }

  Status execute(unsigned char opcode) {
    switch (opcode) {
      case 0x80:
        return protocol();
      case 0x95:
        return frame();
      case '(':
        stack_.push_back(kMark);
        return Status::ok();
      case '}':
        return push(PickleDict{});
      case 'd':
        return dict_from_mark();
      case 's':
        return set_items(false);
      case 'u':
        return set_items(true);
      case 'K':
        return integer(1, false);
      case 'M':
        return integer(2, false);
      case 'J':
        return integer(4, true);
      case 0x8a:
        return long1();
      case 'I':
      case 'L':
        return decimal(opcode == 'L');
      case 0x8c:
        return text(1);
      case 'X':
        return text(4);
      case 0x8d:
        return text(8);
      case 'V':
        return escaped_text();
      case 0x94:
        return memoize(memo_.size());
      case 'q':
        return put(1);
      case 'r':
        return put(4);
      case 'p':
        return put(0);
      case 'h':
        return get(1);
      case 'j':
        return get(4);
      case 'g':
        return get(0);
      default:
        return refuse(opcode);
    }
  }

  Status refuse(unsigned char opcode) const {
    for (const OpcodeName& known : kRefused)
      if (known.byte == opcode)
        return fail(fmt::format("opcode {} is refused: only dicts of str and int are read, and nothing is "
                                "ever called",
                                known.name))
            .with_hint("write meta.json instead (docs/formats/tokens.md), or run `lockstep data prepare`");
    return fail(fmt::format("byte 0x{:02x} is no pickle opcode", opcode));
  }

  // Operands. Each compares with what is left before it reads.

  Result<uint64_t> unsigned_operand(size_t width) {
    if (bytes_.size() - offset_ < width) return fail("the file ends inside an operand");
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i)
      value |= uint64_t{static_cast<unsigned char>(bytes_[offset_ + i])} << (8 * i);
    offset_ += width;
    return value;
  }
  Result<std::string_view> bytes_operand(uint64_t length) {
    if (bytes_.size() - offset_ < length)
      return fail(fmt::format("a length of {} bytes, but only {} follow", length, bytes_.size() - offset_));
    const std::string_view operand = bytes_.substr(offset_, static_cast<size_t>(length));
    offset_ += operand.size();
    return operand;
  }
  Result<std::string_view> line_operand() {
    const size_t end = bytes_.find('\n', offset_);
    if (end == std::string_view::npos) return fail("the file ends inside a line operand");
    const std::string_view line = bytes_.substr(offset_, end - offset_);
    offset_ = end + 1;
    return line;
  }
  Result<int64_t> parse_decimal(std::string_view digits) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      return fail(fmt::format("\"{}\" is no 64-bit integer", printable(digits)));
    return value;
  }
  static std::string printable(std::string_view text) {
    std::string shown(text.substr(0, 40));
    std::replace_if(shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7E; }, '?');
    return shown;
  }

  // Values.

  Status push(PickleValue value) {
    if (pickle_.values.size() >= kPickleValuesMax)
      return fail(fmt::format("more than {} values", kPickleValuesMax));
    stack_.push_back(static_cast<PickleIndex>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
    return Status::ok();
  }

  Status protocol() {
    LOCKSTEP_ASSIGN(const uint64_t version, unsigned_operand(1));
    if (version > 5) return fail(fmt::format("pickle protocol {}, the newest known is 5", version));
    return Status::ok();
  }
  Status frame() {  // only a hint for reading ahead; its length must still be true
    LOCKSTEP_ASSIGN(const uint64_t length, unsigned_operand(8));
    if (length > bytes_.size() - offset_)
      return fail(fmt::format("a frame of {} bytes, but only {} follow", length, bytes_.size() - offset_));
    return Status::ok();
  }
  Status integer(size_t width, bool is_signed) {
    LOCKSTEP_ASSIGN(const uint64_t value, unsigned_operand(width));
    return push(is_signed ? int64_t{static_cast<int32_t>(static_cast<uint32_t>(value))}
                          : static_cast<int64_t>(value));
  }
  Status long1() {  // two's complement, little-endian, shortest form
    LOCKSTEP_ASSIGN(const uint64_t width, unsigned_operand(1));
    if (width > 8) return fail(fmt::format("an integer of {} bytes, at most 8 are read", width));
    LOCKSTEP_ASSIGN(uint64_t value, unsigned_operand(static_cast<size_t>(width)));
    if (width > 0 && width < 8 && ((value >> (8 * width - 1)) & 1u) != 0)
      value |= ~uint64_t{0} << (8 * width);
    return push(static_cast<int64_t>(value));
  }
  Status decimal(bool is_long) {
    LOCKSTEP_ASSIGN(std::string_view line, line_operand());
    if (!is_long && (line == "00" || line == "01")) return fail("a bool, only str, int and dict are read");
    if (is_long && line.ends_with('L')) line.remove_suffix(1);
    LOCKSTEP_ASSIGN(const int64_t value, parse_decimal(line));
    return push(value);
  }
  Status text(size_t width) {
    LOCKSTEP_ASSIGN(const uint64_t length, unsigned_operand(width));
    LOCKSTEP_ASSIGN(const std::string_view content, bytes_operand(length));
    if (Result<int64_t> characters = count_characters(content); !characters.is_ok())
      return fail("a string that is " + characters.status().message());
    return push(std::string(content));
  }
  Status escaped_text();

  // Containers and memo.

  Status dict_from_mark() {
    LOCKSTEP_ASSIGN(const size_t mark, find_mark());
    LOCKSTEP_ASSIGN(PickleDict dict, collect_items(mark + 1));
    stack_.resize(mark);
    return push(std::move(dict));
  }
  Status set_items(bool from_mark) {
    size_t first = stack_.size() - 2;  // of the items; below them (and the mark) the dict
    size_t dict_at = first - 1;
    if (from_mark) {
      LOCKSTEP_ASSIGN(const size_t mark, find_mark());
      first = mark + 1;
      dict_at = mark - 1;
      if (mark == 0) return fail("SETITEMS without a dict");
    } else if (stack_.size() < 3) {
      return fail("SETITEM needs a dict, a key and a value");
    }
    if (stack_[dict_at] == kMark || !std::holds_alternative<PickleDict>(pickle_.values[stack_[dict_at]]))
      return fail("items are set in something that is no dict");
    LOCKSTEP_ASSIGN(const PickleDict added, collect_items(first));
    auto& items = std::get<PickleDict>(pickle_.values[stack_[dict_at]]).items;
    items.insert(items.end(), added.items.begin(), added.items.end());
    stack_.resize(dict_at + 1);
    return Status::ok();
  }
  Result<size_t> find_mark() const {
    for (size_t i = stack_.size(); i-- > 0;)
      if (stack_[i] == kMark) return i;
    return fail("no MARK on the stack");
  }
  Result<PickleDict> collect_items(size_t first) const {
    if ((stack_.size() - first) % 2 != 0) return fail("a key without a value");
    PickleDict dict;
    for (size_t i = first; i < stack_.size(); i += 2) {
      if (stack_[i] == kMark || stack_[i + 1] == kMark) return fail("a MARK where a key or value belongs");
      if (std::holds_alternative<PickleDict>(pickle_.values[stack_[i]])) return fail("a dict as a key");
      dict.items.emplace_back(stack_[i], stack_[i + 1]);
    }
    return dict;
  }
  Status memoize(uint64_t key) {
    if (stack_.empty() || stack_.back() == kMark) return fail("nothing to memoize");
    if (memo_.size() >= kPickleValuesMax)
      return fail(fmt::format("more than {} memo entries", kPickleValuesMax));
    memo_[key] = stack_.back();
    return Status::ok();
  }
  Result<uint64_t> memo_key(size_t width) {
    if (width > 0) return unsigned_operand(width);
    LOCKSTEP_ASSIGN(const std::string_view line, line_operand());
    LOCKSTEP_ASSIGN(const int64_t key, parse_decimal(line));
    if (key < 0) return fail("a negative memo number");
    return static_cast<uint64_t>(key);
  }
  Status put(size_t width) {
    LOCKSTEP_ASSIGN(const uint64_t key, memo_key(width));
    return memoize(key);
  }
  Status get(size_t width) {
    LOCKSTEP_ASSIGN(const uint64_t key, memo_key(width));
    const auto found = memo_.find(key);
    if (found == memo_.end()) return fail(fmt::format("memo number {} was never stored", key));
    stack_.push_back(found->second);
    return Status::ok();
  }

  std::string_view bytes_;
  size_t offset_ = 0;
  size_t opcode_at_ = 0;
  Pickle pickle_;
  std::vector<PickleIndex> stack_;  ///< kMark or an index into pickle_.values; as long as the file at most
  std::unordered_map<uint64_t, PickleIndex> memo_;
};

// Protocol 0: Latin-1 bytes with \uXXXX and \UXXXXXXXX, up to the end of the line.
Status Interpreter::escaped_text() {
  LOCKSTEP_ASSIGN(const std::string_view line, line_operand());
  std::string decoded;
  for (size_t i = 0; i < line.size();) {
    const bool escape = line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == 'u' || line[i + 1] == 'U');
    if (!escape) {
      append_utf8(static_cast<unsigned char>(line[i++]), decoded);
      continue;
    }
    const size_t width = line[i + 1] == 'u' ? 4 : 8;
    const std::string_view digits = line.substr(i + 2, width);
    uint32_t code = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.size() != width ||
        code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      return fail(fmt::format("\"\\{}{}\" is no character", line[i + 1], printable(digits)));
    append_utf8(code, decoded);
    i += 2 + digits.size();
  }
  return push(std::move(decoded));
}

Status meta_error(std::string reason) {
  return Status(Code::kData, std::move(reason))
      .with_hint(
          "nanoGPT's meta.pkl is a dict of vocab_size, itos and stoi; run its prepare.py again, or "
          "`lockstep data prepare` on the text");
}

// itos as a dense table.
Result<std::vector<std::string>> dense_table(const Pickle& pickle, const PickleDict& dict,
                                             int64_t vocab_size) {
  std::map<int64_t, const std::string*> by_id;  // a later item replaces an earlier one, as in Python
  for (const auto& [key, value] : dict.items) {
    const auto* id = std::get_if<int64_t>(&pickle.values[key]);
    const auto* text = std::get_if<std::string>(&pickle.values[value]);
    if (id == nullptr || text == nullptr) return meta_error("itos is not a dict from int to str");
    if (*id < 0 || *id >= vocab_size)
      return meta_error(fmt::format("itos has id {}, but vocab_size is {}", *id, vocab_size));
    by_id[*id] = text;
  }
  std::vector<std::string> table;
  for (const auto& [id, text] : by_id) {
    if (id != static_cast<int64_t>(table.size()))
      return meta_error(fmt::format("itos has no id {}", table.size()));
    table.push_back(*text);
  }
  return table;
}

Status check_inverse(const Pickle& pickle, const PickleDict& stoi, const std::vector<std::string>& itos) {
  std::map<std::string_view, int64_t> ids;
  for (const auto& [key, value] : stoi.items) {
    const auto* text = std::get_if<std::string>(&pickle.values[key]);
    const auto* id = std::get_if<int64_t>(&pickle.values[value]);
    if (id == nullptr || text == nullptr) return meta_error("stoi is not a dict from str to int");
    ids[*text] = *id;
  }
  bool inverse = ids.size() == itos.size();
  for (const auto& [text, id] : ids)
    inverse =
        inverse && id >= 0 && id < static_cast<int64_t>(itos.size()) && itos[static_cast<size_t>(id)] == text;
  return inverse ? Status::ok()
                 : meta_error(fmt::format("stoi ({} entries) is not the inverse of itos ({} entries)",
                                          ids.size(), itos.size()));
}

}  // namespace

const PickleValue* Pickle::find(const PickleValue& dict, std::string_view key) const {
  const auto* items = std::get_if<PickleDict>(&dict);
  if (items == nullptr) return nullptr;
  for (auto item = items->items.rbegin(); item != items->items.rend(); ++item)
    if (const auto* name = std::get_if<std::string>(&values[item->first]); name && *name == key)
      return &values[item->second];
  return nullptr;
}

Result<Pickle> read_pickle(std::string_view bytes) {
  return Interpreter(bytes).run();
}

Result<PickledMeta> read_pickled_meta(std::string_view bytes) {
  LOCKSTEP_ASSIGN(const Pickle pickle, read_pickle(bytes));
  const PickleValue& root = pickle.values[pickle.root];
  if (!std::holds_alternative<PickleDict>(root)) return meta_error("the pickled value is no dict");
  PickledMeta meta;
  const PickleValue* size = pickle.find(root, "vocab_size");
  if (size == nullptr) return meta_error("there is no vocab_size in it");
  if (!std::holds_alternative<int64_t>(*size)) return meta_error("vocab_size is no integer");
  meta.vocab_size = std::get<int64_t>(*size);
  if (meta.vocab_size < 1 || meta.vocab_size > 65536)
    return meta_error(
        fmt::format("vocab_size is {}, it must lie in 1 to 65536 for 16-bit ids", meta.vocab_size));
  const PickleValue* itos = pickle.find(root, "itos");
  const PickleValue* stoi = pickle.find(root, "stoi");
  if (itos != nullptr) {
    if (!std::holds_alternative<PickleDict>(*itos)) return meta_error("itos is no dict");
    LOCKSTEP_ASSIGN(meta.itos, dense_table(pickle, std::get<PickleDict>(*itos), meta.vocab_size));
  }
  if (itos != nullptr && stoi != nullptr) {
    if (!std::holds_alternative<PickleDict>(*stoi)) return meta_error("stoi is no dict");
    LOCKSTEP_TRY(check_inverse(pickle, std::get<PickleDict>(*stoi), meta.itos));
  }
  return meta;
}

}  // namespace lockstep
