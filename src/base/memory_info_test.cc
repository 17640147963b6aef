#include "base/memory_info.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace lockstep {
namespace {

TEST(MemoryInfo, OfThisMachine) {
  const MemoryInfo info = read_memory_info(real_file_system());
  if (!info.total_bytes) GTEST_SKIP() << "this system has no /proc/meminfo";
  EXPECT_GT(*info.total_bytes, uint64_t{1} << 26);
  ASSERT_TRUE(info.available_bytes.has_value());
  EXPECT_LE(*info.available_bytes, *info.total_bytes);
}

TEST(ResidentBytes, GrowsWithWhatIsTouchedAndItsPeakStays) {
  constexpr size_t kBytes = size_t{64} << 20;
  const uint64_t before = resident_bytes();
  if (before == 0) GTEST_SKIP() << "this system has no /proc/self/statm";
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  const uint64_t during = resident_bytes();
  // The kernel counts per CPU and folds the counts together in batches of at most a few hundred pages.
  constexpr uint64_t kSlack = uint64_t{4} << 20;
  EXPECT_GE(during + kSlack, before + kBytes);
  EXPECT_GE(peak_resident_bytes() + kSlack, during);
  ::munmap(memory, kBytes);
  EXPECT_LE(resident_bytes(), during - kBytes + kSlack);
  EXPECT_GE(peak_resident_bytes() + kSlack, during);
}

}  // namespace
}  // namespace lockstep
