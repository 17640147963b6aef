#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the reference reader's limit
constexpr std::string_view kMetadataName = "__metadata__";
// Small enough to stay in the second-level cache between hashing and writing, large enough that the system
// call (about 1 us) is nothing beside the copy.
constexpr size_t kPieceBytes = size_t{1} << 20;

struct TypeRow {
  ElementType type;
  std::string_view name;
  size_t bytes;
};
// In the order in which the reference writer sorts: descending alignment, and among equals its own.
constexpr TypeRow kTypes[] = {{ElementType::kI64, "I64", 8},
                              {ElementType::kF32, "F32", 4},
                              {ElementType::kI32, "I32", 4},
                              {ElementType::kBf16, "BF16", 2},
                              {ElementType::kF16, "F16", 2}};

size_t type_rank(ElementType type) {
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (kTypes[i].type == type) return i;
  LOCKSTEP_CHECK(false) << "element type " << static_cast<int>(type);
  return 0;
}

/// For messages: quoted, escaped, cut. Names come from files and may hold anything.
std::string shown_name(std::string_view text) {
  constexpr size_t kShownMax = 100;
  std::string shown = nlohmann::json(std::string(text.substr(0, kShownMax)))
                          .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > kShownMax ? shown + "…" : shown;
}

/// Elements of a shape, or nothing when a size is negative or the product leaves int64.
std::optional<int64_t> element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool overflows = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) return 0;
    overflows |= __builtin_mul_overflow(count, size, &count);
  }
  if (overflows) return std::nullopt;
  return count;
}

/// One tensor as the header states it.
struct HeaderEntry {
  std::string name;
  std::optional<std::string> type;
  std::optional<std::vector<int64_t>> shape;
  std::optional<std::vector<int64_t>> offsets;
};

/// Receives the header's JSON piece by piece. The grammar is two levels of objects and one of numbers, so a
/// place in it is one of five states and nothing nests: whatever is deeper is refused where it begins.
class HeaderReader {
 public:
  std::vector<HeaderEntry> entries;
  std::map<std::string, std::string> metadata;
  std::string error;

  // The names below are nlohmann's SAX interface; returning false stops the parser.
  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(int64_t) { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) { return unexpected("a number that is not a whole one"); }
  bool binary(std::vector<uint8_t>&) { return unexpected("binary data"); }

  bool number_unsigned(uint64_t value) {
    if (place_ != Place::kNumbers) return unexpected("a number");
    if (value > static_cast<uint64_t>(INT64_MAX)) return fail(fmt::format("number {} is too large", value));
    numbers_->push_back(static_cast<int64_t>(value));
    return true;
  }
  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      if (!metadata.emplace(key_, value).second)
        return fail(fmt::format("{} stands twice", shown_name(key_)));
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return unexpected("a string");
    if (entries.back().type) return fail("dtype stands twice");
    entries.back().type = value;
    return true;
  }
  bool start_object(size_t) {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      if (key_ == kMetadataName) {
        if (std::exchange(metadata_seen_, true)) return fail("it stands twice");
        place_ = Place::kMetadata;
      } else {
        place_ = Place::kTensor;
        entries.push_back({.name = key_, .type = {}, .shape = {}, .offsets = {}});
      }
    } else {
      return unexpected("an object");
    }
    return true;
  }
  bool key(std::string& value) {
    key_ = value;
    if (place_ == Place::kTop) name_ = value;
    return true;
  }
  bool end_object() {
    if (place_ == Place::kTensor) {
      const HeaderEntry& entry = entries.back();
      if (!entry.type || !entry.shape || !entry.offsets)
        return fail("dtype, shape or data_offsets is missing");
    }
    place_ = Place::kTop;  // after the outermost brace nothing but spaces follows, the parser sees to it
    return true;
  }
  bool start_array(size_t) {
    if (place_ != Place::kTensor) return unexpected("a list");
    HeaderEntry& entry = entries.back();
    auto* target = key_ == "shape" ? &entry.shape : key_ == "data_offsets" ? &entry.offsets : nullptr;
    if (target == nullptr) return unexpected("a list");
    if (*target) return fail(fmt::format("{} stands twice", key_));
    numbers_ = &target->emplace();
    place_ = Place::kNumbers;
    return true;
  }
  bool end_array() {
    place_ = Place::kTensor;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    error = fmt::format("its header is not valid JSON at byte {}", kLengthBytes + position);
    return false;
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kNumbers };

  bool fail(std::string_view what) {
    error = place_ == Place::kStart ? fmt::format("header: {}", what)
                                    : fmt::format("header, entry {}: {}", shown_name(name_), what);
    return false;
  }
  bool unexpected(std::string_view what) {
    if (place_ == Place::kTensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets")
      return fail(fmt::format("unknown field {}", shown_name(key_)));
    return fail(fmt::format("{} where none belongs", what));
  }

  Place place_ = Place::kStart;
  std::string name_;  // of the entry
  std::string key_;   // the innermost
  bool metadata_seen_ = false;
  std::vector<int64_t>* numbers_ = nullptr;
};

/// Checks one entry for itself and gives its bytes; the layout is checked by the caller.
Result<TensorEntry> check_entry(HeaderEntry entry, std::span<const std::byte> data) {
  const auto bad = [&](std::string_view what) {
    return Status(Code::kData, fmt::format("tensor {}: {}", shown_name(entry.name), what));
  };
  const TypeRow* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                    [&](const TypeRow& type) { return type.name == *entry.type; });
  if (row == std::end(kTypes))
    return bad(fmt::format("element type {} is none of F32, BF16, F16, I32, I64", shown_name(*entry.type)));
  if (entry.offsets->size() != 2)
    return bad(fmt::format("data_offsets has {} numbers instead of 2", entry.offsets->size()));
  const int64_t begin = (*entry.offsets)[0], end = (*entry.offsets)[1];
  if (begin > end || static_cast<uint64_t>(end) > data.size())
    return bad(fmt::format("bytes [{}, {}) do not lie in the {} bytes of data", begin, end, data.size()));
  const std::optional<int64_t> count = element_count(*entry.shape);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, static_cast<int64_t>(row->bytes), &bytes) ||
      bytes != end - begin)
    return bad(fmt::format("shape {} of {} does not take the {} bytes that it has",
                           format_shape(*entry.shape), row->name, end - begin));
  return TensorEntry{std::move(entry.name), row->type, std::move(*entry.shape),
                     data.subspan(static_cast<size_t>(begin), static_cast<size_t>(bytes))};
}

/// Entries must lie end to end and fill the data: then none overlaps and no byte is hidden.
Status check_layout(std::span<const TensorEntry> entries, std::span<const std::byte> data) {
  const std::byte* expected = data.data();
  for (const TensorEntry& entry : entries) {
    if (entry.bytes.data() != expected)
      return Status(
          Code::kData,
          fmt::format("tensor {} begins at byte {} of the data, but the one before ends at {}",
                      shown_name(entry.name), entry.bytes.data() - data.data(), expected - data.data()));
    expected += entry.bytes.size();
  }
  if (expected != data.data() + data.size())
    return Status(Code::kData, fmt::format("the tensors fill {} of the {} bytes of data",
                                           expected - data.data(), data.size()));
  return Status::ok();
}

/// The JSON header for entries in their final order.
Result<std::string> make_header(std::span<const TensorEntry> entries) {
  const auto json_string = [](std::string_view text) { return nlohmann::json(std::string(text)).dump(); };
  std::string header = R"({"__metadata__":{"format":"pt"})";
  uint64_t begin = 0;
  try {
    for (const TensorEntry& entry : entries) {
      const uint64_t end = begin + entry.bytes.size();
      header +=
          fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_string(entry.name),
                      element_type_name(entry.type), fmt::join(entry.shape, ","), begin, end);
      begin = end;
    }
  } catch (const nlohmann::json::exception&) {  // dump() throws on text that is not UTF-8
    return Status(Code::kData, "a tensor's name is not valid UTF-8");
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kHeaderBytesMax)
    return Status(Code::kData, fmt::format("{} tensors need a header of {} bytes, the format allows {}",
                                           entries.size(), header.size(), kHeaderBytesMax));
  return header;
}

/// Appends and hashes in pieces.
class HashedFile {
 public:
  HashedFile(WritableFile& file, WrittenFile& written) : file_(file), written_(written) {}
  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
      hash_.update(piece);
      LOCKSTEP_TRY(file_.append(piece));
      written_.bytes += piece.size();
      bytes = bytes.subspan(piece.size());
    }
    return Status::ok();
  }
  std::string hash() const { return hash_.hex(); }

 private:
  WritableFile& file_;
  WrittenFile& written_;
  Xxh3 hash_;
};

}  // namespace

std::string_view element_type_name(ElementType type) {
  return kTypes[type_rank(type)].name;
}

size_t element_bytes(ElementType type) {
  return kTypes[type_rank(type)].bytes;
}

std::string format_shape(std::span<const int64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

Result<SafetensorsFile> SafetensorsFile::open(FileSystem& files, const std::string& path) {
  LOCKSTEP_ASSIGN(std::shared_ptr<MappedFile> mapping, files.map(path));
  return from_mapping(std::move(mapping), path);
}

Result<SafetensorsFile> SafetensorsFile::from_mapping(std::shared_ptr<MappedFile> mapping,
                                                      const std::string& path) {
  LOCKSTEP_ASSIGN(SafetensorsFile file, parse(mapping->bytes(), path));
  file.mapping_ = std::move(mapping);
  return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& path) {
  const auto bad = [&path](Status cause) {
    return std::move(cause)
        .with_context(fmt::format("cannot read {} as safetensors", path))
        .with_hint("the file is damaged, incomplete or of another kind: copy or write it again");
  };
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < std::min(kLengthBytes, bytes.size()); ++i)
    header_bytes |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (bytes.size() < kLengthBytes)
    return bad(Status(Code::kData, fmt::format("it has only {} bytes", bytes.size())));
  if (header_bytes > kHeaderBytesMax)
    return bad(
        Status(Code::kData, fmt::format("its header is said to have {} bytes, more than the {} allowed",
                                        header_bytes, kHeaderBytesMax)));
  if (header_bytes > bytes.size() - kLengthBytes)
    return bad(Status(Code::kData, fmt::format("its header is said to have {} bytes, but the file has {}",
                                               header_bytes, bytes.size())));
  const auto header = bytes.subspan(kLengthBytes, static_cast<size_t>(header_bytes));
  const auto data = bytes.subspan(kLengthBytes + header.size());
  if (header.empty() || header[0] != std::byte{'{'})
    return bad(Status(Code::kData, "its header does not begin with '{'"));

  HeaderReader reader;
  const auto* text = reinterpret_cast<const char*>(header.data());
  if (!nlohmann::json::sax_parse(text, text + header.size(), &reader))
    return bad(Status(Code::kData, reader.error));

  SafetensorsFile file;
  file.bytes_ = bytes;
  file.metadata_ = std::move(reader.metadata);
  file.entries_.reserve(reader.entries.size());
  for (HeaderEntry& entry : reader.entries) {
    auto checked = check_entry(std::move(entry), data);
    if (!checked.is_ok()) return bad(std::move(checked).status());
    file.entries_.push_back(std::move(checked).value());
  }
  // An empty tensor sorts before the one that begins where it lies.
  const auto place = [](const TensorEntry& entry) {
    return std::tuple(entry.bytes.data(), entry.bytes.size(), std::string_view(entry.name));
  };
  std::sort(file.entries_.begin(), file.entries_.end(),
            [&](const TensorEntry& a, const TensorEntry& b) { return place(a) < place(b); });
  if (Status layout = check_layout(file.entries_, data); !layout.is_ok()) return bad(std::move(layout));
  for (size_t i = 0; i < file.entries_.size(); ++i)
    if (!file.index_.emplace(file.entries_[i].name, i).second)
      return bad(
          Status(Code::kData, fmt::format("tensor {} stands twice", shown_name(file.entries_[i].name))));
  return file;
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &entries_[it->second];
}

void SafetensorsFile::release(std::span<const std::byte> used) const {
  if (mapping_ == nullptr || used.empty()) return;
  const auto begin = static_cast<size_t>(used.data() - bytes_.data());
  mapping_->release(begin, begin + used.size());
}

Result<WrittenFile> write_safetensors(FileSystem& files, const std::string& path,
                                      std::vector<TensorEntry> entries) {
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(type_rank(a.type), std::string_view(a.name)) <
           std::pair(type_rank(b.type), std::string_view(b.name));
  });
  std::set<std::string_view> names{kMetadataName};
  for (const TensorEntry& entry : entries) {
    LOCKSTEP_CHECK(names.insert(entry.name).second) << entry.name << " stands twice";
    const std::optional<int64_t> count = element_count(entry.shape);
    LOCKSTEP_CHECK(count && static_cast<uint64_t>(*count) * element_bytes(entry.type) == entry.bytes.size())
        << entry.name << ": shape " << format_shape(entry.shape) << " with " << entry.bytes.size()
        << " bytes";
  }

  const auto write = [&]() -> Result<WrittenFile> {
    LOCKSTEP_ASSIGN(const std::string header, make_header(entries));
    LOCKSTEP_ASSIGN(std::unique_ptr<WritableFile> file, files.create(path));
    WrittenFile written;
    HashedFile out(*file, written);
    const uint64_t header_bytes = header.size();
    LOCKSTEP_TRY(out.append(std::as_bytes(std::span(&header_bytes, 1))));
    LOCKSTEP_TRY(out.append(std::as_bytes(std::span(header))));
    for (const TensorEntry& entry : entries) LOCKSTEP_TRY(out.append(entry.bytes));
    LOCKSTEP_TRY(file->sync());
    LOCKSTEP_TRY(file->close());
    written.xxh3_128 = out.hash();
    return written;
  };
  auto written = write();
  if (!written.is_ok())
    return std::move(written).status().with_context(fmt::format("cannot save tensors to {}", path));
  return written;
}

}  // namespace lockstep
