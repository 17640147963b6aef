#include "data/token_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/hash.h"
#include "base/random.h"
#include "data/testing/scratch.h"

namespace lockstep {
namespace {

using testing::expect_error;
using testing::ScratchFolder;

std::vector<uint16_t> random_ids(size_t count) {
  const RandomStream random(7, Purpose::kTest, static_cast<uint32_t>(count));
  std::vector<uint16_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<uint16_t>(random.below(i, 65536));
  return ids;
}

std::string header(std::initializer_list<uint32_t> words) {
  std::string text(kTokenHeaderBytes, '\0');
  std::memcpy(text.data(), words.begin(), words.size() * 4);
  return text;
}

TEST(TokenFile, BothFormatsComeBack) {
  const ScratchFolder folder;
  for (const size_t count : {size_t{1}, size_t{2}, size_t{511}, size_t{512}, size_t{70001}})
    for (const TokenFormat format : {TokenFormat::kPlain, TokenFormat::kHeaded}) {
      const auto ids = random_ids(count);
      const std::string path = folder.path("ids.bin");
      ASSERT_TRUE(write_token_file(real_file_system(), path, format, ids).is_ok());
      EXPECT_EQ(std::filesystem::file_size(path), 2 * count + (format == TokenFormat::kHeaded ? 1024 : 0));
      const Result<TokenFile> file = open_token_file(real_file_system(), path);
      ASSERT_TRUE(file.is_ok()) << file.status().message();
      EXPECT_EQ(file->format, format);
      EXPECT_TRUE(std::equal(file->ids.begin(), file->ids.end(), ids.begin(), ids.end()));
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "left-overs";
    }
}

TEST(TokenFile, TheHeaderIsLlmcs) {
  const ScratchFolder folder;
  const uint16_t ids[] = {5, 6, 0x1234};
  ASSERT_TRUE(write_token_file(real_file_system(), folder.path("x"), TokenFormat::kHeaded, ids).is_ok());
  EXPECT_EQ(testing::read_file(folder.path("x")),
            header({20240520, 1, 3}) + std::string("\x05\0\x06\0\x34\x12", 6));
}

TEST(TokenFile, AMappedFileSurvivesBeingWrittenAgain) {
  const ScratchFolder folder;
  const auto first = random_ids(1000), second = random_ids(10);
  const std::string path = folder.path("ids.bin");
  ASSERT_TRUE(write_token_file(real_file_system(), path, TokenFormat::kPlain, first).is_ok());
  const TokenFile file = *open_token_file(real_file_system(), path);
  ASSERT_TRUE(write_token_file(real_file_system(), path, TokenFormat::kPlain, second).is_ok());
  EXPECT_TRUE(std::equal(file.ids.begin(), file.ids.end(), first.begin(), first.end()));
}

TEST(TokenFile, Errors) {
  const ScratchFolder folder;
  struct Case {
    std::string content;
    std::initializer_list<std::string_view> pieces;
  };
  const Case cases[] = {
      {"", {"the file is empty", "not empty"}},
      {"abc", {"3 bytes are no whole number of 16-bit tokens", "copy it again"}},
      {header({20240520, 1, 3}).substr(0, 1000), {"header of 1024 bytes, but it is 1000 bytes long"}},
      {header({20240520, 1, 3}).substr(0, 4), {"but it is 4 bytes long"}},
      {header({20240520, 7, 1}) + "abcd", {"version 7", "16-bit tokens"}},
      {header({20240520, 1, 3}) + "abcd", {"counts 3 tokens", "a file of 1030 bytes", "it is 1028"}},
      {header({20240520, 1, 1}) + "abcd", {"counts 1 tokens", "a file of 1026 bytes", "it is 1028"}},
      {header({20240520, 1, 1}) + "abc", {"it is 1027 bytes"}},
      {header({20240520, 1, 0xFFFFFFFF}) + "ab", {"counts 4294967295 tokens", "8589935614 bytes"}},
      {header({20240520, 1, 0}), {"holds no tokens"}},
      {header({20240801, 7, 1}) + "abcd", {"magic 20240801", "32-bit tokens", "at most 65,536"}},
  };
  for (const Case& c : cases) {
    const std::string path = folder.write("train.bin", c.content);
    const Status status = open_token_file(real_file_system(), path).status();
    expect_error(status, Code::kData, c.pieces);
    expect_error(status, Code::kData, {path});
  }
  expect_error(open_token_file(real_file_system(), folder.path("none")).status(), Code::kIo,
               {folder.path("none"), "No such file"});
}

TEST(TokenFile, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  const ScratchFolder folder;
  const uint16_t ids[] = {1, 2};
  std::filesystem::create_directory(folder.path("ids.bin"));  // a file cannot replace a folder
  folder.write("ids.bin/inside", "x");
  expect_error(write_token_file(real_file_system(), folder.path("ids.bin"), TokenFormat::kPlain, ids),
               Code::kIo, {"rename", folder.path("ids.bin")});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(TokenFile, SummaryIsTheHashOfTheBytesAndTheLargestId) {
  for (const size_t count : {size_t{1}, size_t{65536}, size_t{65537}, size_t{200000}}) {
    auto ids = random_ids(count);
    for (uint16_t& id : ids) id &= 0x7FFF;
    ids[count - 1] = 40000;  // the maximum in the last place of the last piece
    const TokenSummary summary = summarize_tokens(ids);
    EXPECT_EQ(summary.max_id, 40000);
    EXPECT_EQ(summary.sha256, sha256_hex(std::as_bytes(std::span(ids))));
  }
}

}  // namespace
}  // namespace lockstep
