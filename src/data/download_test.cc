#include "data/download.h"

#include <gtest/gtest.h>

#include "data/testing/scratch.h"

namespace lockstep {
namespace {

// Nothing here leaves this machine: what is not HTTPS is refused before a connection, and port 1 of the
// loopback interface has nobody who listens.
TEST(HttpsDownloader, OnlyHttps) {
  const testing::ScratchFolder folder;
  const std::string path = folder.write("secret", "content");
  for (const std::string& url : {std::string("http://127.0.0.1:1/x"), "file://" + path,
                                 std::string("ftp://127.0.0.1:1/x"), std::string("no address at all")})
    testing::expect_error(https_downloader().fetch(url, 100, {}).status(), Code::kIo,
                          {"cannot download " + url, "check the connection"});
}

TEST(HttpsDownloader, NobodyThere) {
  testing::expect_error(https_downloader().fetch("https://127.0.0.1:1/x", 100, {}).status(), Code::kIo,
                        {"cannot download https://127.0.0.1:1/x: ", "127.0.0.1", "https_proxy"});
}

}  // namespace
}  // namespace lockstep
