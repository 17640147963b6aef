#include "data/dataset.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "data/builtin_text.h"
#include "data/testing/scratch.h"
#include "data/token_file.h"

namespace lockstep {
namespace {

using testing::expect_error;
using testing::ScratchFolder;

DataOptions options_for(const std::string& spec) {
  DataOptions options;
  options.spec = spec;
  options.allow_download = false;
  return options;
}

Result<Dataset> open(const std::string& spec, int64_t block_size) {
  return open_dataset(real_file_system(), options_for(spec), block_size);
}

std::string ids_as_bytes(std::initializer_list<uint16_t> ids) {
  std::string content;
  for (const uint16_t id : ids) {
    content.push_back(static_cast<char>(id & 0xFF));
    content.push_back(static_cast<char>(id >> 8));
  }
  return content;
}

std::vector<uint16_t> first_ids(std::span<const uint16_t> ids, size_t count) {
  return {ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count)};
}

std::string hash_of(std::span<const uint16_t> ids) {
  return sha256_hex(std::as_bytes(ids));
}

TEST(Dataset, BuiltinIsAlwaysThere) {
  const Result<Dataset> data = open("builtin", 64);
  ASSERT_TRUE(data.is_ok()) << data.status().message();
  const std::string text = builtin_text();
  EXPECT_EQ(data->name, "builtin");
  EXPECT_EQ(data->train.size(), static_cast<size_t>(0.9 * static_cast<double>(text.size())));
  EXPECT_EQ(data->train.size() + data->val.size(), text.size());
  EXPECT_EQ(data->vocab_size, data->tokenizer->vocab_size());
  EXPECT_EQ(data->max_id, data->vocab_size - 1);
  EXPECT_EQ(data->tokenizer->decode({data->val.begin(), data->val.end()}), text.substr(data->train.size()));
}

TEST(Dataset, TextFilesAreSplitByCharacters) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 99; ++i) text += i % 3 == 0 ? "\xC3\xA9" : "x";
  const std::string path = folder.write("text.txt", text + "\n");  // the newline is only in val
  const Result<Dataset> data = open(path, 4);
  ASSERT_TRUE(data.is_ok()) << data.status().message();
  EXPECT_EQ(data->train.size(), 90u);
  EXPECT_EQ(data->val.size(), 10u);
  EXPECT_EQ(data->vocab_size, 3);
  EXPECT_EQ(first_ids(data->train, 4), (std::vector<uint16_t>{2, 1, 1, 2}));
  EXPECT_EQ(data->val.back(), 0);
  EXPECT_EQ(data->train_sha256, hash_of(data->train));
  EXPECT_EQ(data->val_sha256, hash_of(data->val));
  EXPECT_EQ(data->content_hash, sha256_hex(hash_of(data->train) + ":" + hash_of(data->val)));
}

TEST(Dataset, TheShortestTextThatFits) {
  const ScratchFolder folder;
  for (const int64_t block_size : {1, 2, 7, 64}) {
    // The hint of the error for a short text names the length that fits, and one less does not.
    const Status status = open(folder.write("short", "ab"), block_size).status();
    expect_error(status, Code::kData, {"2 characters make 1 for training and 1 for validation"});
    const int64_t enough = std::stoll(status.hint().substr(status.hint().find("at least ") + 9));
    std::string text;
    for (int64_t i = 0; i < enough; ++i) text += i % 2 == 0 ? 'a' : 'b';
    EXPECT_TRUE(open(folder.write("enough", text), block_size).is_ok()) << enough;
    text.pop_back();
    EXPECT_FALSE(open(folder.write("less", text), block_size).is_ok()) << enough;
  }
}

TEST(Dataset, ShortTextsNameTheBlockSizeThatFits) {
  const ScratchFolder folder;
  const std::string path = folder.write("text.txt", std::string(100, 'a'));
  expect_error(
      open(path, 64).status(), Code::kData,
      {path, "100 characters make 90 for training and 10 for validation",
       "block size 64 needs at least 65 in each", "--block-size 9 or less", "at least 641 characters"});
  EXPECT_TRUE(open(path, 9).is_ok());
  EXPECT_FALSE(open(path, 10).is_ok());
}

TEST(Dataset, TextErrors) {
  const ScratchFolder folder;
  const std::string empty = folder.write("empty.txt", "");
  expect_error(open(empty, 8).status(), Code::kData, {empty, "the file is empty", "something in it"});
  const std::string broken =
      folder.write("broken.txt", std::string(1000, 'a') + "\xE9" + std::string(1000, 'b'));
  expect_error(open(broken, 8).status(), Code::kData, {broken, "byte offset 1000", "0xe9", "iconv"});
  const std::string one_split = folder.write("train.bin", "abcd");
  expect_error(open(one_split, 8).status(), Code::kData, {one_split, "give the folder"});
  expect_error(open("builtin", 0).status(), Code::kUsage, {"block size 0"});
  expect_error(open("builtin", 1'000'000).status(), Code::kData, {"builtin", "block size 1000000"});
}

TEST(Dataset, UnknownNamesOfferTheNearest) {
  const ScratchFolder folder;
  folder.write("novel.txt", "text");
  expect_error(
      open("shakespear", 8).status(), Code::kData,
      {"cannot find the data \"shakespear\"", "did you mean \"shakespeare\"?", "--data takes builtin"});
  expect_error(open("bultin", 8).status(), Code::kData, {"did you mean \"builtin\"?"});
  expect_error(open(folder.path("novle.txt"), 8).status(), Code::kData,
               {"did you mean \"" + folder.path("novel.txt") + "\"?"});
  const Status status = open("qqqqqqqqqqqqqqqqqqqqqq", 8).status();
  expect_error(status, Code::kData, {"no built-in name, file or folder"});
  EXPECT_EQ(status.hint().find("did you mean"), std::string::npos);
  expect_error(open("", 8).status(), Code::kData, {"\"\""});
}

TEST(Dataset, NanoGptFoldersAreReadAsTheyAre) {
  const ScratchFolder folder;
  folder.write("train.bin", ids_as_bytes({0, 1, 2, 11, 5}));
  folder.write("val.bin", ids_as_bytes({7, 8, 9}));
  folder.write("meta.pkl", testing::read_file(LOCKSTEP_SOURCE_DIR "/src/data/testdata/meta_p4.pkl"));
  const Result<Dataset> data = open(folder.path(), 2);
  ASSERT_TRUE(data.is_ok()) << data.status().message();
  EXPECT_EQ(first_ids(data->train, 5), (std::vector<uint16_t>{0, 1, 2, 11, 5}));
  EXPECT_EQ(first_ids(data->val, 3), (std::vector<uint16_t>{7, 8, 9}));
  EXPECT_EQ(data->vocab_size, 12);
  EXPECT_EQ(data->max_id, 11);
  EXPECT_EQ(data->tokenizer->decode({7, 8, 11}), "az\xF0\x9F\x8C\x8D");
}

TEST(Dataset, FoldersWithoutMetaHaveNoVocabulary) {
  const ScratchFolder folder;
  folder.write("val.bin", ids_as_bytes({7, 50256, 9}));
  const uint16_t train[] = {4, 5, 6};  // llm.c's format beside nanoGPT's
  ASSERT_TRUE(
      write_token_file(real_file_system(), folder.path("train.bin"), TokenFormat::kHeaded, train).is_ok());
  const Result<Dataset> data = open(folder.path(), 2);
  ASSERT_TRUE(data.is_ok()) << data.status().message();
  EXPECT_EQ(data->vocab_size, 0);
  EXPECT_EQ(data->max_id, 50256);
  EXPECT_FALSE(data->tokenizer.has_value());
  EXPECT_EQ(first_ids(data->train, 3), (std::vector<uint16_t>{4, 5, 6}));
}

TEST(Dataset, FolderErrors) {
  const ScratchFolder folder;
  expect_error(open(folder.path(), 2).status(), Code::kData, {folder.path(), "no train.bin", "nothing"});
  folder.write("train.bin", ids_as_bytes({0, 1, 2, 9}));
  folder.write("tiny_val.bin", ids_as_bytes({0}));
  expect_error(open(folder.path(), 2).status(), Code::kData,
               {"no val.bin", "it holds tiny_val.bin, train.bin", "lockstep data prepare"});
  folder.write("val.bin", ids_as_bytes({3, 3}));
  expect_error(
      open(folder.path(), 2).status(), Code::kData,
      {folder.path("val.bin"), "2 tokens are too few", "block size 2 needs at least 3", "--block-size 1"});
  EXPECT_TRUE(open(folder.path(), 1).is_ok());
  folder.write("meta.json", R"({"vocab_size": 9})");
  expect_error(open(folder.path(), 1).status(), Code::kData,
               {folder.path(), "reach id 9", "vocab_size is 9", "belongs to other data"});
  folder.write("meta.json", R"({"vocab_size": 10})");
  EXPECT_EQ(open(folder.path(), 1)->vocab_size, 10);
  folder.write("meta.json", R"({"vocab_size": 10, "train_tokens": 5})");
  expect_error(open(folder.path(), 1).status(), Code::kData,
               {folder.path("train.bin"), "is not the file that meta.json", "4 tokens", "prepare"});
  folder.write("meta.json", R"({"vocab_size": 10, "val_sha256": "00"})");
  expect_error(open(folder.path(), 1).status(), Code::kData, {folder.path("val.bin"), "is not the file"});
  folder.write("val.bin", "abc");
  expect_error(open(folder.path(), 1).status(), Code::kData, {folder.path("val.bin"), "3 bytes"});
}

TEST(PrepareDataset, WhatItWritesIsWhatItRead) {
  const ScratchFolder folder;
  const std::string text = folder.write("text.txt", builtin_text() + "\xF0\x9F\x8C\x8D");
  const std::string out = folder.path("deep/out");
  const auto prepared = prepare_dataset(real_file_system(), options_for(text), out);
  ASSERT_TRUE(prepared.is_ok()) << prepared.status().message();
  ASSERT_EQ(prepared->size(), 3u);
  for (const PreparedFile& file : *prepared)
    EXPECT_EQ(file.sha256, sha256_hex(testing::read_file(file.path))) << file.path;
  const Dataset from_text = open(text, 64).value();
  const Dataset from_folder = open(out, 64).value();
  EXPECT_EQ(from_folder.content_hash, from_text.content_hash);
  EXPECT_EQ(from_folder.vocab_size, from_text.vocab_size);
  EXPECT_EQ(from_folder.tokenizer->code_points(), from_text.tokenizer->code_points());
  EXPECT_EQ(prepared->at(0).tokens, from_text.train.size());
  EXPECT_EQ(prepared->at(1).tokens, from_text.val.size());
}

TEST(PrepareDataset, AFolderMayBePreparedInPlace) {
  const ScratchFolder folder;
  const uint16_t train[] = {4, 5, 6}, val[] = {7, 300};
  ASSERT_TRUE(
      write_token_file(real_file_system(), folder.path("train.bin"), TokenFormat::kHeaded, train).is_ok());
  ASSERT_TRUE(
      write_token_file(real_file_system(), folder.path("val.bin"), TokenFormat::kHeaded, val).is_ok());
  ASSERT_TRUE(prepare_dataset(real_file_system(), options_for(folder.path()), folder.path()).is_ok());
  EXPECT_EQ(testing::read_file(folder.path("train.bin")), ids_as_bytes({4, 5, 6}));
  EXPECT_EQ(open(folder.path(), 1)->vocab_size, 301);
}

TEST(PrepareDataset, Errors) {
  const ScratchFolder folder;
  const std::string file = folder.write("file", "x");
  expect_error(prepare_dataset(real_file_system(), options_for("builtin"), file).status(), Code::kIo, {file});
  expect_error(prepare_dataset(real_file_system(), options_for(file), folder.path("out")).status(),
               Code::kData, {"1 characters"});
}

// recipes of others depend on these numbers: they are nanoGPT's data/shakespeare_char.
TEST(PrepareDataset, TinyshakespeareIsNanoGptsToTheBit) {
  if (std::getenv("LOCKSTEP_DATA") == nullptr)
    GTEST_SKIP() << "set LOCKSTEP_DATA to a folder that holds tinyshakespeare.txt to run this test";
  const ScratchFolder folder;
  const auto prepared = prepare_dataset(real_file_system(), options_for("shakespeare"), folder.path());
  ASSERT_TRUE(prepared.is_ok()) << prepared.status().message();
  constexpr std::string_view kTrain = "6ec305602a99ac2802745a134e1f5e33e2231b4855525b00b9aebb730ac2626f";
  constexpr std::string_view kVal = "d37d30cc0c8327c270d493299c3dca54135f6d5f1c9ef60cda78076e311204b1";
  EXPECT_EQ(prepared->at(0).tokens, 1003854u);
  EXPECT_EQ(prepared->at(0).sha256, kTrain);
  EXPECT_EQ(sha256_hex(testing::read_file(folder.path("train.bin"))), kTrain);
  EXPECT_EQ(prepared->at(1).tokens, 111540u);
  EXPECT_EQ(prepared->at(1).sha256, kVal);
  EXPECT_EQ(sha256_hex(testing::read_file(folder.path("val.bin"))), kVal);
  const auto meta = nlohmann::json::parse(testing::read_file(folder.path("meta.json")));
  EXPECT_EQ(meta["vocab_size"], 65);
  EXPECT_EQ(meta["train_sha256"], kTrain);
  EXPECT_EQ(meta["val_sha256"], kVal);
  const Dataset data = open(folder.path(), 256).value();
  EXPECT_EQ(first_ids(data.train, 8), (std::vector<uint16_t>{18, 47, 56, 57, 58, 1, 15, 47}));
  EXPECT_EQ(first_ids(data.val, 8), (std::vector<uint16_t>{12, 0, 0, 19, 30, 17, 25, 21}));
  EXPECT_EQ(data.tokenizer->decode({0, 1, 2, 64}), "\n !z");
}

}  // namespace
}  // namespace lockstep
