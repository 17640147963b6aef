#include "base/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace lockstep {
namespace {

Status io_error(std::string_view attempt, const std::string& path, int error) {
  Status status(Code::kIo, fmt::format("cannot {} {}: {}", attempt, path, std::strerror(error)));
  if (error == ENOSPC || error == EDQUOT)
    return std::move(status).with_hint("free space on that disk, or choose another place with --out-dir");
  if (error == EACCES || error == EPERM || error == EROFS)
    return std::move(status).with_hint("check who owns it, or choose another place");
  return status;
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixWritableFile() override {
    if (fd_ >= 0) ::close(fd_);
  }
  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        return io_error("write", path_, errno);
      }
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return Status::ok();
  }
  Status sync() override {
    if (::fsync(fd_) != 0) return io_error("sync", path_, errno);
    return Status::ok();
  }
  Status close() override {
    const int fd = std::exchange(fd_, -1);
    if (fd >= 0 && ::close(fd) != 0) return io_error("close", path_, errno);
    return Status::ok();
  }

 private:
  int fd_;
  std::string path_;
};

class PosixMappedFile final : public MappedFile {
 public:
  PosixMappedFile(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  ~PosixMappedFile() override {
    if (bytes_ > 0) ::munmap(address_, bytes_);
  }
  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(address_), bytes_};
  }
  void release(size_t begin, size_t end) const override {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    begin = (begin + page - 1) / page * page;  // whole pages only
    end = end >= bytes_ ? bytes_ : end / page * page;
    if (begin < end) ::madvise(static_cast<std::byte*>(address_) + begin, end - begin, MADV_DONTNEED);
  }

 private:
  void* address_;
  size_t bytes_;
};

class PosixDirectoryLock final : public DirectoryLock {
 public:
  explicit PosixDirectoryLock(int fd) : fd_(fd) {}
  PosixDirectoryLock(const PosixDirectoryLock&) = delete;
  PosixDirectoryLock& operator=(const PosixDirectoryLock&) = delete;
  ~PosixDirectoryLock() override { ::close(fd_); }

 private:
  int fd_;
};

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return open_for_writing(path, O_TRUNC, "create");
  }
  Result<std::unique_ptr<WritableFile>> open_append(const std::string& path) override {
    return open_for_writing(path, O_APPEND, "open");
  }
  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    // Opening a pipe that nobody writes to would wait for ever; a regular file ignores O_NONBLOCK.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return io_error("open", path, errno);
    struct stat info{};
    int error = ::fstat(fd, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    if (error == 0 && !S_ISREG(info.st_mode)) {
      ::close(fd);
      return Status(Code::kData, fmt::format("cannot read {}: it is a pipe, socket or device", path))
          .with_hint("copy its content to a file and give that");
    }
    const auto bytes = static_cast<size_t>(info.st_size);
    void* address = nullptr;
    if (error == 0 && bytes > 0) {
      address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
      if (address == MAP_FAILED) error = errno;
    }
    ::close(fd);
    if (error != 0) return io_error("map", path, error);
    return std::unique_ptr<MappedFile>(std::make_unique<PosixMappedFile>(address, bytes));
  }
  Result<std::string> read(const std::string& path, uint64_t bytes_max) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error("open", path, errno);
    std::string content;
    std::string piece(size_t{1} << 16, '\0');
    for (;;) {
      const ssize_t got = ::read(fd, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      const int error = got < 0 ? errno : 0;
      if (got > 0) content.append(piece, 0, static_cast<size_t>(got));
      if (error != 0 || got == 0 || content.size() > bytes_max) {
        ::close(fd);
        if (error != 0) return io_error("read", path, error);
        if (content.size() > bytes_max)
          return Status(Code::kData, fmt::format("cannot read {}: larger than {} bytes", path, bytes_max));
        return content;
      }
    }
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return io_error("rename " + from + " to", to, errno);
    return Status::ok();
  }
  Status remove_all(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    return error ? io_error("remove", path, error.value()) : Status::ok();
  }
  Status create_directories(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return error ? io_error("create directory", path, error.value()) : Status::ok();
  }
  Status sync_directory(const std::string& path) override {
    const int fd = ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return io_error("open", path, errno);
    const int error = ::fsync(fd) != 0 ? errno : 0;
    ::close(fd);
    return error != 0 && error != EINVAL ? io_error("sync", path, error) : Status::ok();
  }
  Status truncate(const std::string& path, uint64_t bytes) override {
    if (::truncate(path.c_str(), static_cast<off_t>(bytes)) != 0) return io_error("truncate", path, errno);
    return Status::ok();
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    for (auto it = std::filesystem::directory_iterator(path, error);
         !error && it != std::filesystem::directory_iterator(); it.increment(error))
      names.push_back(it->path().filename().string());
    if (error) return io_error("list", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
  bool exists(const std::string& path) override { return ::access(path.c_str(), F_OK) == 0; }
  bool is_directory(const std::string& path) override {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }
  Result<uint64_t> file_bytes(const std::string& path) override {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return io_error("inspect", path, errno);
    return static_cast<uint64_t>(info.st_size);
  }
  Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path) override {
    const int fd = ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return io_error("open", path, errno);
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0)
      return std::unique_ptr<DirectoryLock>(std::make_unique<PosixDirectoryLock>(fd));
    const int error = errno;
    ::close(fd);
    if (error == EWOULDBLOCK)
      return Status(Code::kUsage, fmt::format("cannot lock {}: another process works in it", path));
    // Network file systems refuse to lock a directory; a run there is as safe as it was without locks.
    return std::unique_ptr<DirectoryLock>();
  }

 private:
  static Result<std::unique_ptr<WritableFile>> open_for_writing(const std::string& path, int mode,
                                                                std::string_view attempt) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | mode, 0644);
    if (fd < 0) return io_error(attempt, path, errno);
    return std::unique_ptr<WritableFile>(std::make_unique<PosixWritableFile>(fd, path));
  }
};

}  // namespace

Result<std::unique_ptr<DirectoryLock>> FileSystem::lock_directory(const std::string&) {
  return std::unique_ptr<DirectoryLock>();
}

FileSystem& real_file_system() {
  static PosixFileSystem files;
  return files;
}

std::string parent_directory(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.find_last_of('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

Status create_directories_durably(FileSystem& files, const std::string& path) {
  std::vector<std::string> missing;  // innermost first
  for (std::string at = path; !files.exists(at) && at != "." && at != "/"; at = parent_directory(at))
    missing.push_back(at);
  LOCKSTEP_TRY(files.create_directories(path));
  for (auto it = missing.rbegin(); it != missing.rend(); ++it)
    LOCKSTEP_TRY(files.sync_directory(parent_directory(*it)));
  return Status::ok();
}

Status write_file_atomically(FileSystem& files, const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp";
  const auto write = [&]() -> Status {
    LOCKSTEP_ASSIGN(std::unique_ptr<WritableFile> file, files.create(temporary));
    LOCKSTEP_TRY(file->append(content));
    LOCKSTEP_TRY(file->sync());
    LOCKSTEP_TRY(file->close());
    return files.rename(temporary, path);
  };
  Status written = write();
  if (!written.is_ok()) {
    static_cast<void>(files.remove_all(temporary));  // the disk may be full: give the space back
    return written;
  }
  return files.sync_directory(parent_directory(path));
}

}  // namespace lockstep
