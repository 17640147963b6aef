#include "data/pickle.h"

#include <gtest/gtest.h>

#include <string>

#include "data/testing/scratch.h"

namespace lockstep {
namespace {

using testing::expect_error;

std::string testdata(const std::string& name) {
  return testing::read_file(LOCKSTEP_SOURCE_DIR "/src/data/testdata/" + name);
}

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text.push_back(static_cast<char>(value));
  return text;
}

// The characters of testdata/make_pickles.py, sorted as Python sorts them.
const std::vector<std::string> kSmall = {
    std::string(1, '\0'), "\n", "\r", "\x1a", " ", "!", "\\", "a", "z", "\xC3\xA9", "\xE4\xBD\xA0",
    "\xF0\x9F\x8C\x8D"};

TEST(Pickle, ReadsWhatPythonWritesInEveryProtocol) {
  for (int protocol = 0; protocol <= 5; ++protocol) {
    const std::string content = testdata("meta_p" + std::to_string(protocol) + ".pkl");
    const Result<PickledMeta> meta = read_pickled_meta(content);
    ASSERT_TRUE(meta.is_ok()) << protocol << ": " << meta.status().message();
    EXPECT_EQ(meta->vocab_size, 12);
    EXPECT_EQ(meta->itos, kSmall) << protocol;
    const Pickle pickle = *read_pickle(content);
    const PickleValue* notes = pickle.find(pickle.values[pickle.root], "notes");
    ASSERT_NE(notes, nullptr);
    const std::pair<const char*, int64_t> integers[] = {{"byte", 200},
                                                        {"word", 300},
                                                        {"int", 70000},
                                                        {"negative", -5},
                                                        {"long", int64_t{1} << 40},
                                                        {"low", -(int64_t{1} << 40)}};
    for (const auto& [name, expected] : integers) {
      const PickleValue* value = pickle.find(*notes, name);
      ASSERT_NE(value, nullptr) << name;
      EXPECT_EQ(std::get<int64_t>(*value), expected) << protocol << " " << name;
    }
  }
}

TEST(Pickle, ReadsWideVocabularies) {
  for (const int protocol : {0, 2, 4}) {
    const Result<PickledMeta> meta =
        read_pickled_meta(testdata("wide_p" + std::to_string(protocol) + ".pkl"));
    ASSERT_TRUE(meta.is_ok()) << protocol << ": " << meta.status().message();
    ASSERT_EQ(meta->itos.size(), 1200u);
    EXPECT_EQ(meta->itos[0], "\xE4\xB8\x80");
    EXPECT_EQ(meta->itos[1199], "\xE5\x8A\xAF");
  }
}

// Every file cut at every length is an error, never a crash and never a success.
TEST(Pickle, EveryTruncationIsAnError) {
  for (int protocol = 0; protocol <= 5; ++protocol) {
    const std::string whole = testdata("meta_p" + std::to_string(protocol) + ".pkl");
    for (size_t length = 0; length < whole.size(); ++length)
      EXPECT_EQ(read_pickle(whole.substr(0, length)).status().code(), Code::kData)
          << protocol << " " << length;
  }
}

TEST(Pickle, EveryByteChangedIsReadOrRefusedCleanly) {
  for (int protocol = 0; protocol <= 5; ++protocol) {
    const std::string whole = testdata("meta_p" + std::to_string(protocol) + ".pkl");
    for (size_t i = 0; i < whole.size(); ++i)
      for (const int value : {0x00, 0x28, 0x7F, 0x80, 0x94, 0xFF}) {
        std::string changed = whole;
        changed[i] = static_cast<char>(value);
        const Result<PickledMeta> meta = read_pickled_meta(changed);
        EXPECT_TRUE(meta.is_ok() || meta.status().code() == Code::kData);
      }
  }
}

TEST(Pickle, WhatCouldCallSomethingIsRefusedByName) {
  // What pickle.dumps gives for an object with __reduce__ = (os.system, ("true",)).
  expect_error(read_pickle("cposix\nsystem\n(Vtrue\ntR.").status(), Code::kData,
               {"byte offset 0", "opcode GLOBAL is refused", "nothing is ever called", "meta.json"});
  const std::pair<int, const char*> refused[] = {{'R', "REDUCE"},
                                                 {0x93, "STACK_GLOBAL"},
                                                 {'b', "BUILD"},
                                                 {'i', "INST"},
                                                 {'o', "OBJ"},
                                                 {0x81, "NEWOBJ"},
                                                 {0x92, "NEWOBJ_EX"},
                                                 {0x82, "EXT1"},
                                                 {'P', "PERSID"},
                                                 {'2', "DUP"},
                                                 {'0', "POP"},
                                                 {'1', "POP_MARK"},
                                                 {'N', "NONE"},
                                                 {0x88, "NEWTRUE"},
                                                 {'G', "BINFLOAT"},
                                                 {']', "EMPTY_LIST"},
                                                 {')', "EMPTY_TUPLE"},
                                                 {0x8f, "EMPTY_SET"},
                                                 {'C', "SHORT_BINBYTES"},
                                                 {0x8b, "LONG4"},
                                                 {0x97, "NEXT_BUFFER"},
                                                 {'U', "SHORT_BINSTRING"}};
  for (const auto& [opcode, name] : refused)
    expect_error(read_pickle(bytes({0x80, 4, '}', opcode, '.'})).status(), Code::kData,
                 {"byte offset 3", std::string("opcode ") + name + " is refused"});
  expect_error(read_pickle(bytes({'}', 0xFE, '.'})).status(), Code::kData, {"0xfe is no pickle opcode"});
}

TEST(Pickle, MalformedFilesAreRefused) {
  struct Case {
    std::string content;
    const char* reason;
  };
  const Case cases[] = {
      {"", "ends before STOP"},
      {".", "0 entries are on the stack"},
      {"}}.", "2 entries are on the stack"},
      {"(.", "1 entries are on the stack"},
      {"}.x", "1 bytes follow STOP"},
      {bytes({0x80, 6, '}', '.'}), "pickle protocol 6"},
      {bytes({0x95, 5, 0, 0, 0, 0, 0, 0, 0, '}', '.'}), "a frame of 5 bytes, but only 2 follow"},
      {bytes({0x8d, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 'a', '.'}), "18446744073709551615 bytes"},
      {bytes({'X', 0xFF, 0xFF, 0xFF, 0x7F, 'a', '.'}), "a length of 2147483647 bytes, but only 2 follow"},
      {bytes({0x8c, 1, 0xFF, '.'}), "not valid UTF-8"},
      {bytes({0x8c, 3, 0xED, 0xA0, 0x80, '.'}), "a surrogate"},
      {bytes({0x8a, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1, '.'}), "an integer of 9 bytes"},
      {"I12x\n.", "\"12x\" is no 64-bit integer"},
      {"I99999999999999999999\n.", "is no 64-bit integer"},
      {"I01\n.", "a bool"},
      {"I1", "ends inside a line"},
      {"V\\u12\n.", "is no character"},
      {"V\\ud800\n.", "is no character"},
      {"V\\U00110000\n.", "is no character"},
      {"V\\U0001\n.", "is no character"},
      {bytes({'K', 1, 'K', 2, 's', '.'}), "SETITEM needs a dict"},
      {bytes({'K', 1, 'K', 1, 'K', 2, 's', '.'}), "no dict"},
      {bytes({'(', 'K', 1, 'K', 2, 's', '.'}), "no dict"},
      {bytes({'(', 'u', '.'}), "SETITEMS without a dict"},
      {bytes({'}', 'u', '.'}), "no MARK"},
      {bytes({'}', '(', 'K', 1, 'u', '.'}), "a key without a value"},
      {bytes({'}', '(', '}', 'K', 1, 'u', '.'}), "a dict as a key"},
      {bytes({'}', '(', '(', 's', '.'}), "a MARK where"},
      {bytes({0x94, '.'}), "nothing to memoize"},
      {bytes({'}', 'h', 3, '.'}), "memo number 3 was never stored"},
      {"}p-1\n.", "a negative memo number"},
  };
  for (const Case& c : cases)
    expect_error(read_pickle(c.content).status(), Code::kData, {c.reason, "byte offset"});
}

TEST(Pickle, ADictInsideItselfIsHarmless) {
  // d = {}; d[1] = d
  const Result<Pickle> pickle = read_pickle(bytes({'}', 'q', 0, 'K', 1, 'h', 0, 's', '.'}));
  ASSERT_TRUE(pickle.is_ok());
  EXPECT_EQ(std::get<PickleDict>(pickle->values[pickle->root]).items.size(), 1u);
}

TEST(Pickle, TheNumberOfValuesIsBounded) {
  std::string many;
  for (size_t i = 0; i <= kPickleValuesMax; ++i) many += '}';
  expect_error(read_pickle(many + ".").status(), Code::kData, {"more than 1048576 values"});
  std::string memos = "}";
  for (size_t i = 0; i <= kPickleValuesMax; ++i) memos += '\x94';
  expect_error(read_pickle(memos + ".").status(), Code::kData, {"more than 1048576 memo entries"});
}

// A pickle of a dict from name to what its text form says.
std::string dict_of(const std::string& items) {
  return "}(" + items + "u.";
}

TEST(PickledMeta, VocabSizeMayExceedTheTable) {
  const Result<PickledMeta> meta =
      read_pickled_meta(dict_of("Vvocab_size\nI50304\nVitos\n}(I0\nVa\nI1\nVb\nu"));
  ASSERT_TRUE(meta.is_ok()) << meta.status().message();
  EXPECT_EQ(meta->vocab_size, 50304);
  EXPECT_EQ(meta->itos, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(read_pickled_meta(dict_of("Vvocab_size\nI5\n"))->itos.empty());
}

TEST(PickledMeta, TheLastItemOfAKeyWins) {
  const Result<PickledMeta> meta =
      read_pickled_meta(dict_of("Vvocab_size\nI1\nVvocab_size\nI2\nVitos\n}(I0\nVa\nI0\nVb\nu"));
  ASSERT_TRUE(meta.is_ok()) << meta.status().message();
  EXPECT_EQ(meta->vocab_size, 2);
  EXPECT_EQ(meta->itos, (std::vector<std::string>{"b"}));
}

TEST(PickledMeta, Errors) {
  const std::pair<std::string, const char*> cases[] = {
      {"I5\n.", "no dict"},
      {dict_of("I1\nI2\n"), "no vocab_size"},
      {dict_of("Vvocab_size\nVx\n"), "vocab_size is no integer"},
      {dict_of("Vvocab_size\nI0\n"), "vocab_size is 0"},
      {dict_of("Vvocab_size\nI65537\n"), "vocab_size is 65537"},
      {dict_of("Vvocab_size\nI2\nVitos\nI3\n"), "itos is no dict"},
      {dict_of("Vvocab_size\nI2\nVitos\n}(Va\nI0\nu"), "itos is not a dict from int to str"},
      {dict_of("Vvocab_size\nI2\nVitos\n}(I2\nVa\nu"), "itos has id 2, but vocab_size is 2"},
      {dict_of("Vvocab_size\nI2\nVitos\n}(I-1\nVa\nu"), "itos has id -1"},
      {dict_of("Vvocab_size\nI2\nVitos\n}(I1\nVa\nu"), "itos has no id 0"},
      {dict_of("Vvocab_size\nI2\nVitos\n}(I0\nVa\nuVstoi\nI1\n"), "stoi is no dict"},
      {dict_of("Vvocab_size\nI2\nVitos\n}(I0\nVa\nuVstoi\n}(I0\nVa\nu"),
       "stoi is not a dict from str to int"},
      {dict_of("Vvocab_size\nI2\nVitos\n}(I0\nVa\nuVstoi\n}(Va\nI1\nu"), "not the inverse"},
      {dict_of("Vvocab_size\nI2\nVitos\n}(I0\nVa\nuVstoi\n}(Vb\nI0\nu"), "not the inverse"},
      {dict_of("Vvocab_size\nI2\nVitos\n}(I0\nVa\nuVstoi\n}"), "stoi (0 entries)"},
  };
  for (const auto& [content, reason] : cases)
    expect_error(read_pickled_meta(content).status(), Code::kData, {reason});
  expect_error(read_pickled_meta(dict_of("Vvocab_size\nI0\n")).status(), Code::kData,
               {"1 to 65536", "run its prepare.py again"});
}

}  // namespace
}  // namespace lockstep
