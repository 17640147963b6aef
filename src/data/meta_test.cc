#include "data/meta.h"

#include <gtest/gtest.h>

#include "data/testing/scratch.h"

namespace lockstep {
namespace {

using testing::expect_error;
using testing::ScratchFolder;

TEST(Meta, JsonComesBack) {
  Meta meta;
  meta.vocab_size = 300;
  meta.tokenizer = *CharTokenizer::from_text(std::string("\"\\\n\0\xC3\xA9\xF0\x9F\x8C\x8D", 10));
  meta.train_tokens = int64_t{1} << 40;
  meta.val_tokens = 7;
  meta.train_sha256 = "abc";
  meta.val_sha256 = "def";
  const std::string json = meta_json(meta);
  EXPECT_EQ(json.find_first_not_of("\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
                                   "abcdefghijklmnopqrstuvwxyz{|}~"),
            std::string::npos)
      << "plain ASCII";
  const Result<Meta> again = parse_meta_json(json);
  ASSERT_TRUE(again.is_ok()) << again.status().message();
  EXPECT_EQ(again->vocab_size, 300);
  EXPECT_EQ(again->tokenizer->code_points(), meta.tokenizer->code_points());
  EXPECT_EQ(again->train_tokens, int64_t{1} << 40);
  EXPECT_EQ(again->val_tokens, 7);
  EXPECT_EQ(again->train_sha256, "abc");
  EXPECT_EQ(again->val_sha256, "def");
}

TEST(Meta, VocabSizeAloneIsEnough) {
  const Result<Meta> meta = parse_meta_json(R"({"vocab_size": 50304, "somebody_elses": [1, {}]})");
  ASSERT_TRUE(meta.is_ok()) << meta.status().message();
  EXPECT_EQ(meta->vocab_size, 50304);
  EXPECT_FALSE(meta->tokenizer.has_value());
}

TEST(Meta, StringsThatAreNoCharactersMakeNoTokenizer) {
  const Result<Meta> meta = parse_meta_json(R"({"vocab_size": 3, "characters": ["a", "the", "b"]})");
  ASSERT_TRUE(meta.is_ok()) << meta.status().message();
  EXPECT_FALSE(meta->tokenizer.has_value());
}

TEST(Meta, JsonErrors) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no JSON object"},
      {"[1]", "no JSON object"},
      {"{\"vocab_size\": 5", "no JSON object"},
      {"{}", "there is no vocab_size"},
      {R"({"vocab_size": "5"})", "vocab_size is \"5\", it must be an integer in 1 to 65536"},
      {R"({"vocab_size": 0})", "vocab_size is 0"},
      {R"({"vocab_size": 65537})", "vocab_size is 65537"},
      {R"({"vocab_size": 5.5})", "vocab_size is 5.5"},
      {R"({"vocab_size": 18446744073709551615})", "vocab_size is 18446744073709551615"},
      {R"({"vocab_size": 5, "version": 2})", "version is 2"},
      {R"({"vocab_size": 5, "format": "other"})", "format is \"other\""},
      {R"({"vocab_size": 5, "format": 5})", "format is no string"},
      {R"({"vocab_size": 5, "train_tokens": -1})", "train_tokens is -1"},
      {R"({"vocab_size": 5, "val_sha256": 1})", "val_sha256 is no string"},
      {R"({"vocab_size": 5, "characters": {}})", "characters is no list"},
      {R"({"vocab_size": 5, "characters": ["a", 1]})", "characters[1] is no string"},
      {R"({"vocab_size": 1, "characters": ["a", "b"]})", "2 characters, but vocab_size is 1"},
      {R"({"vocab_size": 5, "characters": ["a", "b", "a"]})", "ids 0 and 2 both stand for 'a'"},
  };
  for (const auto& [json, reason] : cases)
    expect_error(parse_meta_json(json).status(), Code::kData, {reason});
  expect_error(parse_meta_json("{}").status(), Code::kData, {"lockstep data prepare"});
}

TEST(Meta, AbsurdValuesAreNotRepeatedWhole) {
  const Status status = parse_meta_json("{\"vocab_size\": \"" + std::string(100000, 'x') + "\"}").status();
  EXPECT_EQ(status.code(), Code::kData);
  EXPECT_LT(status.message().size(), 400u);
}

TEST(Meta, OursComesBeforeNanoGpts) {
  const ScratchFolder folder;
  EXPECT_FALSE(read_meta(real_file_system(), folder.path())->has_value());
  folder.write("meta.pkl", "}(Vvocab_size\nI7\nVitos\n}(I0\nVa\nuu.");
  const auto pickled = *read_meta(real_file_system(), folder.path());
  EXPECT_EQ(pickled->vocab_size, 7);
  EXPECT_EQ(pickled->tokenizer->vocab_size(), 1);
  folder.write("meta.json", R"({"vocab_size": 9})");
  EXPECT_EQ((*read_meta(real_file_system(), folder.path()))->vocab_size, 9);
}

TEST(Meta, ErrorsNameTheFile) {
  const ScratchFolder folder;
  folder.write("meta.pkl", "cos\nsystem\n.");
  expect_error(read_meta(real_file_system(), folder.path()).status(), Code::kData,
               {folder.path("meta.pkl"), "GLOBAL"});
  folder.write("meta.json", "{}");
  expect_error(read_meta(real_file_system(), folder.path()).status(), Code::kData,
               {folder.path("meta.json"), "vocab_size"});
}

}  // namespace
}  // namespace lockstep
