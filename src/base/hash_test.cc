#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace lockstep {
namespace {

std::string random_text(size_t bytes) {
  const RandomStream random(1, Purpose::kTest);
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(random.below(i, 256));
  return text;
}

TEST(Sha256, KnownVectors) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Xxh3, KnownVectors) {  // of no bytes and seed 0, from the algorithm's specification
  EXPECT_EQ(xxh3_hex(""), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, AnyCutGivesTheSameValue) {
  // Around the block sizes of both: 64 bytes for SHA-256, 240, 256 and 1024 inside XXH3.
  for (const size_t bytes : {0, 1, 63, 64, 65, 239, 240, 241, 255, 256, 257, 1023, 1024, 1025, 5000}) {
    const std::string text = random_text(bytes);
    const auto whole = std::as_bytes(std::span(text));
    for (const size_t piece : {1, 7, 64, 1000}) {
      Sha256 sha;
      Xxh3 xxh;
      for (size_t begin = 0; begin < bytes; begin += piece) {
        const auto part = whole.subspan(begin, std::min(piece, bytes - begin));
        sha.update(part);
        xxh.update(part);
      }
      EXPECT_EQ(xxh.hex(), xxh3_hex(whole)) << bytes << " in pieces of " << piece;
      EXPECT_EQ(sha.finish_hex(), sha256_hex(whole)) << bytes << " in pieces of " << piece;
    }
  }
}

TEST(Hash, EveryBitCounts) {
  std::string text = random_text(300);
  const std::string sha = sha256_hex(text), xxh = xxh3_hex(text);
  for (size_t bit = 0; bit < text.size() * 8; bit += 13) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(sha256_hex(text), sha);
    EXPECT_NE(xxh3_hex(text), xxh);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
  EXPECT_EQ(xxh3_hex(text), xxh);
}

}  // namespace
}  // namespace lockstep
