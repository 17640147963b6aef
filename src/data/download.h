// The seam to the network for data: fetches one small public file into memory. Tests give a fake.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace lockstep {

/// Called now and then with the bytes so far and the total (0: unknown); from the calling thread.
using DownloadProgress = std::function<void(uint64_t bytes, uint64_t bytes_total)>;

class Downloader {
 public:
  virtual ~Downloader() = default;
  /// The content behind `url`; kIo with the cause when there is none, when it is over bytes_max, or when it
  /// takes too long. Nothing is written to disk.
  virtual Result<std::string> fetch(const std::string& url, uint64_t bytes_max,
                                    const DownloadProgress& progress) = 0;
};

/// HTTPS only, redirects included; certificates are checked. Gives up after 10 s without a connection, 15 s
/// below 1 KB/s, or 5 minutes. Honours https_proxy. Adapter over libcurl (its headers stay in download.cc).
Downloader& https_downloader();

}  // namespace lockstep
