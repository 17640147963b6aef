#include "checkpoint/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <numeric>

#include "base/hash.h"
#include "base/random.h"
#include "base/testing/fault_file_system.h"

namespace lockstep {
namespace {

using testing::Fault;
using testing::FaultFileSystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// A file with this header text and this much data.
std::string make_file(std::string_view header, size_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file.append(header).append(data_bytes, 'd');
}

Status parse_status(std::string_view file) {
  return SafetensorsFile::parse(bytes_of(file), "x.safetensors").status();
}

/// Values of every type that a file may hold; kept alive by the object.
struct Samples {
  std::vector<float> floats;
  std::vector<int32_t> ints;
  std::vector<int64_t> longs;
  std::vector<uint16_t> halves;
  std::vector<TensorEntry> entries;

  explicit Samples(uint64_t seed) : floats(24), ints(5), longs(3), halves(8) {
    const RandomStream random(seed, Purpose::kTest);
    uint64_t index = 0;
    for (float& value : floats) value = static_cast<float>(random.normal(index++));
    for (int32_t& value : ints) value = static_cast<int32_t>(random.below(index++, 1 << 30)) - (1 << 29);
    for (int64_t& value : longs) value = static_cast<int64_t>(random.below(index++, uint64_t{1} << 62));
    for (uint16_t& value : halves) value = static_cast<uint16_t>(random.below(index++, 1 << 16));
    entries = {{"b.weight", ElementType::kF32, {2, 3, 4}, std::as_bytes(std::span(floats))},
               {"a.scalar", ElementType::kF32, {}, std::as_bytes(std::span(floats).first(1))},
               {"x", ElementType::kI32, {5}, std::as_bytes(std::span(ints))},
               {"long", ElementType::kI64, {3, 1}, std::as_bytes(std::span(longs))},
               {"half", ElementType::kF16, {2, 2}, std::as_bytes(std::span(halves).first(4))},
               {"brain", ElementType::kBf16, {2, 2}, std::as_bytes(std::span(halves).last(4))},
               {"none", ElementType::kF32, {4, 0}, {}}};
  }
};

TEST(Safetensors, RoundTripOfEveryTypeAndShape) {
  FaultFileSystem files;
  const Samples samples(1);
  const auto written = write_safetensors(files, "f", samples.entries);
  ASSERT_TRUE(written.is_ok()) << written.status().message();
  const std::string content = files.content("f").value_or("");
  EXPECT_EQ(written->bytes, content.size());
  EXPECT_EQ(written->xxh3_128, xxh3_hex(content));

  const auto file = SafetensorsFile::open(files, "f");
  ASSERT_TRUE(file.is_ok()) << file.status().message();
  EXPECT_EQ(file->metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file->entries().size(), samples.entries.size());
  for (const TensorEntry& expected : samples.entries) {
    const TensorEntry* found = file->find(expected.name);
    ASSERT_NE(found, nullptr) << expected.name;
    EXPECT_EQ(found->type, expected.type) << expected.name;
    EXPECT_EQ(found->shape, expected.shape) << expected.name;
    ASSERT_EQ(found->bytes.size(), expected.bytes.size()) << expected.name;
    if (found->bytes.empty()) continue;
    EXPECT_EQ(std::memcmp(found->bytes.data(), expected.bytes.data(), expected.bytes.size()), 0)
        << expected.name;
  }
  EXPECT_EQ(file->find("b.weigh"), nullptr);
}

TEST(Safetensors, CopiesOfTheObjectShareTheMapping) {
  FaultFileSystem files;
  ASSERT_TRUE(write_safetensors(files, "f", Samples(1).entries).is_ok());
  std::optional<SafetensorsFile> copy;
  {
    const auto file = SafetensorsFile::open(files, "f");
    ASSERT_TRUE(file.is_ok());
    copy = *file;
  }
  const TensorEntry* entry = copy->find("b.weight");
  ASSERT_NE(entry, nullptr);
  const Samples samples(1);
  EXPECT_EQ(std::memcmp(entry->bytes.data(), samples.floats.data(), entry->bytes.size()), 0);
}

TEST(Safetensors, LayoutIsTheReferenceWriters) {
  // The very bytes that the reference writer makes of these tensors: sorted by descending alignment, then
  // name; offsets relative to the data; spaces up to a multiple of eight.
  FaultFileSystem files;
  const std::vector<float> f{1.0f, -2.0f};
  const std::vector<int64_t> l{3};
  const std::vector<uint16_t> h{0x3f80};
  ASSERT_TRUE(write_safetensors(files, "f",
                                {{"h", ElementType::kBf16, {1}, std::as_bytes(std::span(h))},
                                 {"z", ElementType::kF32, {2}, std::as_bytes(std::span(f))},
                                 {"a", ElementType::kF32, {2, 1}, std::as_bytes(std::span(f))},
                                 {"l", ElementType::kI64, {}, std::as_bytes(std::span(l))}})
                  .is_ok());
  std::string header =
      R"({"__metadata__":{"format":"pt"},"l":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},)"
      R"("z":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},)"
      R"("h":{"dtype":"BF16","shape":[1],"data_offsets":[24,26]}})";
  while (header.size() % 8 != 0) header += ' ';
  std::string expected = make_file(header, 0);
  const auto add = [&](const auto& values) {
    expected.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  add(l);
  add(f);
  add(f);
  add(h);
  EXPECT_EQ(files.content("f"), expected);
}

TEST(Safetensors, NamesAreEscaped) {
  FaultFileSystem files;
  const std::vector<float> f{1.0f};
  const std::string name = "quote \" backslash \\ newline \n umlaut \xc3\xa4";
  ASSERT_TRUE(
      write_safetensors(files, "f", {{name, ElementType::kF32, {1}, std::as_bytes(std::span(f))}}).is_ok());
  const auto file = SafetensorsFile::open(files, "f");
  ASSERT_TRUE(file.is_ok()) << file.status().message();
  EXPECT_EQ(file->entries().at(0).name, name);
  const auto refused =
      write_safetensors(files, "g", {{"\xff", ElementType::kF32, {1}, std::as_bytes(std::span(f))}});
  EXPECT_EQ(refused.status().code(), Code::kData);
}

TEST(Safetensors, NoTensorsAtAll) {
  FaultFileSystem files;
  ASSERT_TRUE(write_safetensors(files, "f", {}).is_ok());
  const auto file = SafetensorsFile::open(files, "f");
  ASSERT_TRUE(file.is_ok()) << file.status().message();
  EXPECT_TRUE(file->entries().empty());
}

TEST(Safetensors, LargeTensorsAreWrittenInPieces) {
  FaultFileSystem files;
  std::vector<float> large((size_t{1} << 20) + 77);
  std::iota(large.begin(), large.end(), 0.5f);
  const auto written = write_safetensors(
      files, "f",
      {{"w", ElementType::kF32, {static_cast<int64_t>(large.size())}, std::as_bytes(std::span(large))}});
  ASSERT_TRUE(written.is_ok());
  EXPECT_EQ(written->xxh3_128, xxh3_hex(files.content("f").value_or("")));
  const auto file = SafetensorsFile::open(files, "f");
  ASSERT_TRUE(file.is_ok());
  EXPECT_EQ(std::memcmp(file->find("w")->bytes.data(), large.data(), large.size() * sizeof(float)), 0);
}

TEST(Safetensors, EveryFailingOperationIsReported) {
  const Samples samples(2);
  FaultFileSystem whole;
  ASSERT_TRUE(write_safetensors(whole, "f", samples.entries).is_ok());
  const int64_t count = whole.operations();
  for (int64_t n = 0; n < count; ++n)
    for (const Fault fault : {Fault::kIoError, Fault::kNoSpace, Fault::kShortWrite}) {
      FaultFileSystem files;
      files.fail_at(n, fault);
      const auto written = write_safetensors(files, "f", samples.entries);
      EXPECT_EQ(written.status().code(), Code::kIo) << whole.trace()[static_cast<size_t>(n)];
      EXPECT_TRUE(written.status().message().starts_with("cannot save tensors to f: "));
    }
  FaultFileSystem files;
  EXPECT_FALSE(SafetensorsFile::open(files, "none").is_ok());
}

/// One entry of a header.
std::string entry(std::string_view name, std::string_view type, std::string_view shape,
                  std::string_view begin, std::string_view end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, type, shape, begin,
                     end);
}
std::string header_of(const std::vector<std::string>& entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}
/// A header whose one entry, "a", has these fields.
std::string fields(std::string_view text) {
  return fmt::format(R"({{"a":{{{}}}}})", text);
}

struct Hostile {
  std::string_view name;
  std::string header;
  size_t data_bytes;
  std::string_view expected;  ///< part of the message
};

/// Where the bytes lie, and how many.
std::vector<Hostile> hostile_layouts() {
  const auto f32 = [](std::string_view name, std::string_view shape, std::string_view begin,
                      std::string_view end) { return entry(name, "F32", shape, begin, end); };
  return {
      {"hole", header_of({f32("a", "[1]", "0", "4"), f32("b", "[1]", "8", "12")}), 12,
       "begins at byte 8 of the data, but the one before ends at 4"},
      {"hole_at_begin", header_of({f32("a", "[1]", "4", "8")}), 8, "the one before ends at 0"},
      {"hidden_tail", header_of({f32("a", "[1]", "0", "4")}), 8, "fill 4 of the 8 bytes"},
      {"overlap", header_of({f32("a", "[2]", "0", "8"), f32("b", "[2]", "4", "12")}), 12,
       "begins at byte 4 of the data, but the one before ends at 8"},
      {"same_bytes_twice", header_of({f32("a", "[1]", "0", "4"), f32("b", "[1]", "0", "4")}), 4,
       "begins at byte 0"},
      {"beyond_the_end", header_of({f32("a", "[2]", "0", "8")}), 4, "do not lie in the 4 bytes"},
      {"far_beyond", header_of({f32("a", "[1]", "9223372036854775803", "9223372036854775807")}), 4,
       "do not lie"},
      {"backwards", header_of({f32("a", "[1]", "4", "0")}), 4, "do not lie in"},
      {"wrong_size", header_of({f32("a", "[3]", "0", "8")}), 8, "does not take the 8 bytes"},
      {"product_overflows", header_of({f32("a", "[4294967296,4294967296]", "0", "0")}), 0,
       "does not take the 0"},
      {"bytes_overflow", header_of({f32("a", "[4611686018427387904]", "0", "0")}), 0, "does not take the 0"},
      {"negative_size", header_of({f32("a", "[-1]", "0", "4")}), 4, "a negative number"},
      {"size_over_int64", header_of({f32("a", "[9223372036854775808]", "0", "4")}), 4, "too large"},
      {"size_over_uint64", header_of({f32("a", "[99999999999999999999]", "0", "4")}), 4, "not a whole one"},
      {"fraction", header_of({f32("a", "[1.5]", "0", "4")}), 4, "not a whole one"},
      {"string_size", header_of({f32("a", "[\"1\"]", "0", "4")}), 4, "a string where none belongs"},
      {"nested_shape", header_of({f32("a", "[[1]]", "0", "4")}), 4, "a list where none belongs"},
      {"duplicate_name", header_of({f32("a", "[1]", "0", "4"), f32("a", "[1]", "4", "8")}), 8,
       "stands twice"},
      {"unknown_type", header_of({entry("a", "F64", "[1]", "0", "8")}), 8,
       "none of F32, BF16, F16, I32, I64"},
      {"not_utf8", header_of({f32("a\xff", "[1]", "0", "4")}), 4, "not valid JSON"},
      {"lone_surrogate", header_of({f32("\\ud800", "[1]", "0", "4")}), 4, "not valid JSON"},
  };
}

/// What the header's JSON may hold, and where.
std::vector<Hostile> hostile_grammar() {
  return {
      {"duplicate_field", fields(R"("dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4])"), 4,
       "dtype stands twice"},
      {"duplicate_shape", fields(R"("dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4])"), 4,
       "shape stands twice"},
      {"duplicate_metadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"},
      {"duplicate_metadata_key", R"({"__metadata__":{"k":"1","k":"2"}})", 0, "stands twice"},
      {"missing_shape", fields(R"("dtype":"F32","data_offsets":[0,4])"), 4, "missing"},
      {"missing_dtype", fields(R"("shape":[1],"data_offsets":[0,4])"), 4, "missing"},
      {"missing_offsets", fields(R"("dtype":"F32","shape":[1])"), 4, "missing"},
      {"three_offsets", fields(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"), 4,
       "3 numbers instead of 2"},
      {"one_offset", fields(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), 4, "1 numbers instead of 2"},
      {"unknown_field", fields(R"("dtype":"F32","color":"red","shape":[1],"data_offsets":[0,4])"), 4,
       "unknown field"},
      {"type_is_a_number", fields(R"("dtype":3,"shape":[1],"data_offsets":[0,4])"), 4,
       "a number where none belongs"},
      {"type_is_null", fields(R"("dtype":null,"shape":[1],"data_offsets":[0,4])"), 4,
       "null where none belongs"},
      {"entry_is_a_list", R"({"a":[1]})", 0, "a list where none belongs"},
      {"entry_is_true", R"({"a":true})", 0, "a boolean where none belongs"},
      {"nested_metadata", R"({"__metadata__":{"k":{}}})", 0, "an object where none belongs"},
      {"metadata_number", R"({"__metadata__":{"k":1}})", 0, "a number where none belongs"},
      {"not_json", R"({"a":)", 0, "not valid JSON"},
      {"garbage_after", R"({} x)", 0, "not valid JSON"},
      {"second_document", R"({}{})", 0, "not valid JSON"},
      {"a_list", R"([1])", 0, "does not begin with '{'"},
      {"space_before", R"( {})", 0, "does not begin with '{'"},
      {"nul", std::string("{\0}", 3), 0, "not valid JSON"},
  };
}

TEST(Safetensors, HostileHeadersAreRefusedWithAReason) {
  std::vector<Hostile> all = hostile_layouts();
  for (Hostile& hostile : hostile_grammar()) all.push_back(std::move(hostile));
  for (const Hostile& hostile : all) {
    const Status status = parse_status(make_file(hostile.header, hostile.data_bytes));
    EXPECT_EQ(status.code(), Code::kData) << hostile.name;
    EXPECT_TRUE(status.message().starts_with("cannot read x.safetensors as safetensors: "))
        << status.message();
    EXPECT_NE(status.message().find(hostile.expected), std::string::npos)
        << hostile.name << ": " << status.message();
    EXPECT_NE(status.hint(), "") << hostile.name;
  }
}

TEST(Safetensors, HostileLengths) {
  EXPECT_EQ(parse_status("").message(), "cannot read x.safetensors as safetensors: it has only 0 bytes");
  EXPECT_EQ(parse_status("1234567").message(),
            "cannot read x.safetensors as safetensors: it has only 7 bytes");
  const std::string zero(8, '\0');
  EXPECT_NE(parse_status(zero).message().find("does not begin with '{'"), std::string::npos);
  const std::string huge(16, '\xff');
  EXPECT_NE(parse_status(huge).message().find("18446744073709551615 bytes, more than"), std::string::npos);
  std::string beyond = make_file("{}", 0);
  beyond[0] = 100;
  EXPECT_NE(parse_status(beyond).message().find("said to have 100 bytes, but the file has 10"),
            std::string::npos);
}

TEST(Safetensors, DeepNestingIsRefusedWithoutRecursion) {
  const std::string lists = make_file(R"({"a":)" + std::string(1000000, '['), 0);
  EXPECT_EQ(parse_status(lists).code(), Code::kData);
  std::string objects = R"({"a":)";
  for (int i = 0; i < 200000; ++i) objects += R"({"a":)";
  EXPECT_EQ(parse_status(make_file(objects, 0)).code(), Code::kData);
}

TEST(Safetensors, AVeryLongNameIsCutInTheMessage) {
  const std::string header = R"({")" + std::string(100000, 'n') + R"(":{"dtype":"F32"}})";
  const Status status = parse_status(make_file(header, 0));
  EXPECT_EQ(status.code(), Code::kData);
  EXPECT_LT(status.message().size(), 400u);
}

TEST(Safetensors, HarmlessVariantsAreAccepted) {
  // Other writers: no metadata, spaces after the header, entries in any order, empty tensors between others.
  const std::string file = make_file(R"({ "b" : {"data_offsets":[4,12],"dtype":"I64","shape":[1]},)"
                                     R"("e":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
                                     R"("a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}   )",
                                     12);
  const auto parsed = SafetensorsFile::parse(bytes_of(file), "x");
  ASSERT_TRUE(parsed.is_ok()) << parsed.status().message();
  ASSERT_EQ(parsed->entries().size(), 3u);
  EXPECT_EQ(parsed->entries()[0].name, "a");
  EXPECT_EQ(parsed->entries()[1].name, "e");
  EXPECT_EQ(parsed->entries()[2].name, "b");
  EXPECT_TRUE(SafetensorsFile::parse(bytes_of(make_file("{}", 0)), "x").is_ok());
}

TEST(Safetensors, EveryTruncationIsRefused) {
  FaultFileSystem files;
  ASSERT_TRUE(write_safetensors(files, "f", Samples(3).entries).is_ok());
  const std::string content = files.content("f").value_or("");
  ASSERT_TRUE(parse_status(content).is_ok());
  for (size_t bytes = 0; bytes < content.size(); ++bytes)
    EXPECT_EQ(parse_status(std::string_view(content).substr(0, bytes)).code(), Code::kData) << bytes;
  EXPECT_EQ(parse_status(content + "x").code(), Code::kData);
}

TEST(Safetensors, AnyFlippedBitIsRefusedOrStillWithinBounds) {
  FaultFileSystem files;
  const Samples samples(4);
  ASSERT_TRUE(write_safetensors(files, "f", samples.entries).is_ok());
  std::string content = files.content("f").value_or("");
  int refused = 0;
  for (size_t bit = 0; bit < content.size() * 8; ++bit) {
    content[bit / 8] = static_cast<char>(content[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = SafetensorsFile::parse(bytes_of(content), "x");
    refused += parsed.is_ok() ? 0 : 1;
    if (parsed.is_ok())
      for (const TensorEntry& entry : parsed->entries()) {
        ASSERT_GE(reinterpret_cast<const char*>(entry.bytes.data()), content.data());
        ASSERT_LE(reinterpret_cast<const char*>(entry.bytes.data() + entry.bytes.size()),
                  content.data() + content.size());
      }
    content[bit / 8] = static_cast<char>(content[bit / 8] ^ (1 << (bit % 8)));
  }
  EXPECT_GT(refused, 1000);
}

TEST(FormatShape, AsPythonWrites) {
  EXPECT_EQ(format_shape({}), "()");
  EXPECT_EQ(format_shape(std::vector<int64_t>{3}), "(3,)");
  EXPECT_EQ(format_shape(std::vector<int64_t>{65, 128}), "(65, 128)");
}

TEST(SafetensorsDeathTest, MisuseAborts) {
  FaultFileSystem files;
  const std::vector<float> f{1.0f};
  const auto bytes = std::as_bytes(std::span(f));
  EXPECT_DEATH(static_cast<void>(write_safetensors(files, "f", {{"a", ElementType::kF32, {2}, bytes}})),
               "a: shape \\(2,\\) with 4 bytes");
  EXPECT_DEATH(static_cast<void>(write_safetensors(
                   files, "f", {{"a", ElementType::kF32, {1}, bytes}, {"a", ElementType::kI32, {1}, bytes}})),
               "a stands twice");
}

}  // namespace
}  // namespace lockstep
