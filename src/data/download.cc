#include "data/download.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>
#include <mutex>

namespace lockstep {
namespace {

struct Transfer {
  std::string content;
  uint64_t bytes_max = 0;
  bool too_large = false;
  const DownloadProgress* progress = nullptr;
};

size_t receive(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  if (bytes > transfer.bytes_max - transfer.content.size()) {
    transfer.too_large = true;
    return 0;  // makes curl give up
  }
  transfer.content.append(data, bytes);
  return bytes;
}

int report_progress(void* user, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
  const auto& transfer = *static_cast<const Transfer*>(user);
  if (*transfer.progress) (*transfer.progress)(static_cast<uint64_t>(now), static_cast<uint64_t>(total));
  return 0;
}

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};

class CurlDownloader final : public Downloader {
 public:
  Result<std::string> fetch(const std::string& url, uint64_t bytes_max,
                            const DownloadProgress& progress) override {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    const std::unique_ptr<CURL, FreeHandle> handle(curl_easy_init());
    if (handle == nullptr) return failed(url, "libcurl cannot start");
    Transfer transfer;
    transfer.bytes_max = bytes_max;
    transfer.progress = &progress;
    char detail[CURL_ERROR_SIZE] = "";
    set_options(handle.get(), url, transfer, detail);
    const CURLcode code = curl_easy_perform(handle.get());
    if (transfer.too_large) return failed(url, fmt::format("it is larger than {} bytes", bytes_max));
    if (code != CURLE_OK) return failed(url, detail[0] != '\0' ? detail : curl_easy_strerror(code));
    return std::move(transfer.content);
  }

 private:
  static Status failed(const std::string& url, std::string_view reason) {
    return Status(Code::kIo, fmt::format("cannot download {}: {}", url, reason))
        .with_hint("check the connection (and https_proxy, if this network needs a proxy)");
  }
  static void set_options(CURL* handle, const std::string& url, Transfer& transfer, char* detail) {
    curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "https");
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(handle, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(handle, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1024L);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, 15L);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT, 300L);
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "lockstep");
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, report_progress);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &transfer);
  }
};

}  // namespace

Downloader& https_downloader() {
  static CurlDownloader downloader;
  return downloader;
}

}  // namespace lockstep
