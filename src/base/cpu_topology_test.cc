#include "base/cpu_topology.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/cgroup.h"
#include "base/memory_info.h"
#include "base/testing/fault_file_system.h"

namespace lockstep {
namespace {

/// A machine made of files.
class FakeMachine : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const std::string full = "fake" + path;
    ASSERT_TRUE(files_.create_directories(parent_directory(full)).is_ok());
    auto file = files_.create(full);
    ASSERT_TRUE(file.is_ok()) << file.status().message();
    ASSERT_TRUE((*file)->append(text).is_ok());
  }
  /// Each core is a list of its hardware threads.
  void put_cores(const std::vector<std::vector<int>>& cores,
                 const std::string& list_name = "core_cpus_list") {
    int cpus = 0;
    for (const auto& core : cores) {
      for (const int cpu : core)
        put(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", cpu, list_name),
            fmt::format("{}\n", fmt::join(core, ",")));
      cpus += static_cast<int>(core.size());
    }
    put("/sys/devices/system/cpu/online", fmt::format("0-{}\n", cpus - 1));
  }
  void put_v2_mount(const std::string& shown = "/") {
    put("/proc/self/mountinfo",
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "31 22 0:26 " +
            shown + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  CpuTopology read(int cpus) {
    std::vector<int> affinity(static_cast<size_t>(cpus));
    std::iota(affinity.begin(), affinity.end(), 0);
    return read_cpu_topology(files_, "fake", affinity);
  }

  testing::FaultFileSystem files_;
};

const std::vector<std::vector<int>> kFourCoresTwoThreads{{0, 4}, {1, 5}, {2, 6}, {3, 7}};

TEST_F(FakeMachine, TwoThreadsPerCore) {
  put_cores(kFourCoresTwoThreads);
  put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Example CPU 3000 @ 2.0GHz\ncpu MHz\t\t: 2000.0\n");
  const CpuTopology topology = read(8);
  EXPECT_EQ(topology.logical, 8);
  EXPECT_EQ(topology.physical, 4);
  EXPECT_EQ(topology.quota_cpus, 0);
  EXPECT_EQ(topology.default_threads(), 4);
  EXPECT_EQ(topology.model_name, "Example CPU 3000 @ 2.0GHz");
  EXPECT_EQ(topology.explain(), "4 physical cores (8 hardware threads)");
}

TEST_F(FakeMachine, OlderKernelsNameTheListOtherwise) {
  put_cores(kFourCoresTwoThreads, "thread_siblings_list");
  EXPECT_EQ(read(8).physical, 4);
}

TEST_F(FakeMachine, CoreNumbersCountWithinPackageAndDie) {
  // Two packages of two dies of two cores each; numbers repeat. No lists at all.
  int cpu = 0;
  for (int package = 0; package < 2; ++package)
    for (int die = 0; die < 2; ++die)
      for (int core = 0; core < 2; ++core, ++cpu) {
        const std::string topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
        put(topology + "physical_package_id", fmt::format("{}\n", package));
        put(topology + "die_id", fmt::format("{}\n", die));
        put(topology + "core_id", fmt::format("{}\n", core));
      }
  EXPECT_EQ(read(8).physical, 8);
}

TEST_F(FakeMachine, HybridCoresCountAlike) {
  // Two performance cores with two threads, four efficiency cores with one.
  put_cores({{0, 1}, {2, 3}, {4}, {5}, {6}, {7}});
  const CpuTopology topology = read(8);
  EXPECT_EQ(topology.logical, 8);
  EXPECT_EQ(topology.physical, 6);
  EXPECT_EQ(topology.default_threads(), 6);
}

TEST_F(FakeMachine, AffinityToHalfOfTheCores) {
  put_cores(kFourCoresTwoThreads);
  const CpuTopology both_threads = read_cpu_topology(files_, "fake", {0, 4, 1, 5});
  EXPECT_EQ(both_threads.logical, 4);
  EXPECT_EQ(both_threads.physical, 2);
  const CpuTopology one_thread_each = read_cpu_topology(files_, "fake", {0, 1, 2, 3});
  EXPECT_EQ(one_thread_each.logical, 4);
  EXPECT_EQ(one_thread_each.physical, 4);
  EXPECT_EQ(one_thread_each.explain(), "4 physical cores");
  const CpuTopology single = read_cpu_topology(files_, "fake", {7});
  EXPECT_EQ(single.default_threads(), 1);
  EXPECT_EQ(single.explain(), "1 physical core");
}

TEST_F(FakeMachine, OfflineCpusDoNotCount) {
  put_cores(kFourCoresTwoThreads);
  put("/sys/devices/system/cpu/online", "0-2,4-6\n");
  const CpuTopology topology = read(8);
  EXPECT_EQ(topology.cpus, (std::vector<int>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(topology.physical, 3);
}

TEST_F(FakeMachine, AContradictionBelievesTheScheduler) {
  put_cores(kFourCoresTwoThreads);
  put("/sys/devices/system/cpu/online", "64-71\n");
  EXPECT_EQ(read(8).logical, 8);
}

TEST_F(FakeMachine, WithoutTopologyTheAllowedCpusCount) {
  const CpuTopology topology = read(6);  // not a single file
  EXPECT_EQ(topology.logical, 6);
  EXPECT_EQ(topology.physical, 6);
  EXPECT_EQ(topology.model_name, "unknown CPU");
}

TEST_F(FakeMachine, ModelNameOfOtherArchitectures) {
  put("/proc/cpuinfo", "processor\t: 0\nHardware\t: Board\n\nModel\t\t: Small Board 5\n");
  EXPECT_EQ(read(1).model_name, "Small Board 5");
}

TEST_F(FakeMachine, QuotaIsRoundedUp) {
  put_cores(kFourCoresTwoThreads);
  put_v2_mount();
  put("/proc/self/cgroup", "0::/job\n");
  for (const auto& [text, cpus] : {std::pair<std::string, int>{"150000 100000", 2},
                                   {"50000 100000", 1},
                                   {"1000 100000", 1},
                                   {"200000 100000", 2},
                                   {"200001 100000", 3},
                                   {"100000 50000", 2},
                                   {"max 100000", 0},
                                   {"nonsense", 0},
                                   {"0 100000", 0},
                                   {"1600000 100000", 16}}) {
    put("/sys/fs/cgroup/job/cpu.max", text + "\n");
    EXPECT_EQ(read(8).quota_cpus, cpus) << text;
    EXPECT_EQ(read(8).default_threads(), cpus == 0 ? 4 : std::min(cpus, 4)) << text;
  }
  put("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(read(8).explain(),
            "4 physical cores (8 hardware threads), limited to 2 by the control group's CPU quota");
}

TEST_F(FakeMachine, AParentsLowerLimitHolds) {
  put_cores(kFourCoresTwoThreads);
  put_v2_mount();
  put("/proc/self/cgroup", "0::/slice/outer/inner\n");
  put("/sys/fs/cgroup/slice/outer/inner/cpu.max", "max 100000\n");
  put("/sys/fs/cgroup/slice/outer/cpu.max", "300000 100000\n");
  put("/sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
  EXPECT_EQ(read(8).quota_cpus, 2);
  put("/sys/fs/cgroup/slice/outer/inner/cpu.max", "100000 100000\n");
  EXPECT_EQ(read(8).quota_cpus, 1);
}

TEST_F(FakeMachine, AControlGroupNamespaceShowsOnlyItsTop) {
  put_cores(kFourCoresTwoThreads);
  put_v2_mount();
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_EQ(read(8).quota_cpus, 3);
}

TEST_F(FakeMachine, ANameOutsideOfTheNamespaceFallsBackToTheTop) {
  put_cores(kFourCoresTwoThreads);
  put_v2_mount();
  put("/proc/self/cgroup", "0::/../other\n");
  put("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_EQ(read(8).quota_cpus, 3);
}

TEST_F(FakeMachine, WithoutMountinfoTheUsualPlacesAreTried) {
  put_cores(kFourCoresTwoThreads);
  put("/proc/self/cgroup", "0::/job\n");
  put("/sys/fs/cgroup/job/cpu.max", "200000 100000\n");
  EXPECT_EQ(read(8).quota_cpus, 2);
}

TEST_F(FakeMachine, VersionOneGroups) {
  put_cores(kFourCoresTwoThreads);
  put("/proc/self/mountinfo",
      "33 31 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:8 - cgroup cgroup rw,cpu,cpuacct\n");
  put("/proc/self/cgroup", "5:memory:/m\n4:cpuset:/\n3:cpu,cpuacct:/outer/inner\n1:name=systemd:/x\n");
  put("/sys/fs/cgroup/cpu,cpuacct/outer/inner/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/outer/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read(8).quota_cpus, 0);
  put("/sys/fs/cgroup/cpu,cpuacct/outer/cpu.cfs_quota_us", "150000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/outer/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read(8).quota_cpus, 2);
}

TEST_F(FakeMachine, VersionOneInAContainerWithoutNamespace) {
  // The group's name is the host's, but only that part of the tree is mounted.
  put_cores(kFourCoresTwoThreads);
  put("/proc/self/mountinfo", "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  put("/proc/self/cgroup", "3:cpu:/docker/abc\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read(8).quota_cpus, 1);
  put("/proc/self/cgroup", "3:cpu:/docker/abc/inner\n");
  put("/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "50000\n");
  put("/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
  const auto directories = cgroup_directories(files_, "fake", "cpu");
  ASSERT_EQ(directories.size(), 2u);
  EXPECT_EQ(directories[0].path, "fake/sys/fs/cgroup/cpu/inner");
  EXPECT_EQ(directories[1].path, "fake/sys/fs/cgroup/cpu");
  EXPECT_EQ(directories[1].version, 1);
}

TEST_F(FakeMachine, FrequencyFromEachSource) {
  EXPECT_FALSE(current_cpu_mhz(files_, {0, 1}, "fake").has_value());
  put("/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2000.0\n\nprocessor\t: 1\ncpu MHz\t\t: 3000.5\n");
  EXPECT_DOUBLE_EQ(current_cpu_mhz(files_, {0, 1}, "fake").value_or(0), 2500.25);
  put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1200000\n");
  put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "1400000\n");
  EXPECT_DOUBLE_EQ(current_cpu_mhz(files_, {0, 1}, "fake").value_or(0), 1300.0);
  EXPECT_DOUBLE_EQ(current_cpu_mhz(files_, {1}, "fake").value_or(0), 1400.0);
  put("/proc/cpuinfo", "cpu MHz\ncpu MHz : x\n");
  EXPECT_FALSE(current_cpu_mhz(files_, {7}, "fake").has_value());
}

TEST_F(FakeMachine, MemoryIsTheLeastOfMachineAndGroups) {
  constexpr uint64_t kMiB = 1 << 20;
  put("/proc/meminfo",
      "MemTotal:       16777216 kB\nMemFree:         1000 kB\nMemAvailable:    8388608 kB\n");
  MemoryInfo info = read_memory_info(files_, "fake");
  EXPECT_EQ(info.total_bytes, 16384 * kMiB);
  EXPECT_EQ(info.available_bytes, 8192 * kMiB);
  EXPECT_FALSE(info.limit_bytes.has_value());

  put_v2_mount();
  put("/proc/self/cgroup", "0::/outer/inner\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  put("/sys/fs/cgroup/outer/memory.max", fmt::format("{}\n", 2048 * kMiB));
  put("/sys/fs/cgroup/outer/memory.current", fmt::format("{}\n", 1536 * kMiB));
  put("/sys/fs/cgroup/outer/memory.stat",
      fmt::format("anon 1\nactive_file 7\ninactive_file {}\n", 512 * kMiB));
  info = read_memory_info(files_, "fake");
  EXPECT_EQ(info.limit_bytes, 2048 * kMiB);
  EXPECT_EQ(info.available_bytes, 1024 * kMiB);
}

TEST_F(FakeMachine, MemoryOfVersionOneGroups) {
  constexpr uint64_t kMiB = 1 << 20;
  put("/proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n");
  put("/proc/self/mountinfo", "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  put("/proc/self/cgroup", "5:memory:/m\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  EXPECT_FALSE(read_memory_info(files_, "fake").limit_bytes.has_value());
  put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", fmt::format("{}\n", 1024 * kMiB));
  put("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", fmt::format("{}\n", 1100 * kMiB));
  put("/sys/fs/cgroup/memory/m/memory.stat", fmt::format("total_inactive_file {}\n", 100 * kMiB));
  const MemoryInfo info = read_memory_info(files_, "fake");
  EXPECT_EQ(info.limit_bytes, 1024 * kMiB);
  EXPECT_EQ(info.available_bytes, 24 * kMiB);
}

TEST_F(FakeMachine, NoFailureOfAReadIsFatal) {
  put_cores(kFourCoresTwoThreads);
  put_v2_mount();
  put("/proc/self/cgroup", "0::/job\n");
  put("/sys/fs/cgroup/job/cpu.max", "200000 100000\n");
  put("/proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 5 kB\n");
  const int64_t begin = files_.operations();
  read(8);
  const int64_t count = files_.operations() - begin;
  ASSERT_GT(count, 8);
  for (int64_t n = 0; n < count; ++n) {
    files_.fail_at(files_.operations() + n, testing::Fault::kIoError);
    const CpuTopology topology = read(8);
    EXPECT_EQ(topology.logical, 8);
    EXPECT_GE(topology.physical, 4);
    EXPECT_LE(topology.physical, 8);
  }
  files_.clear_faults();
}

TEST(CpuList, ParsesWhatTheKernelWrites) {
  EXPECT_EQ(parse_cpu_list("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), std::vector<int>{5});
  EXPECT_EQ(parse_cpu_list("2,0-1"), (std::vector<int>{0, 1, 2}));
  for (const char* wrong : {"", "\n", "x", "1-", "-1", "3-1", "1,,2", "1,", "0-99999999", "1 2"})
    EXPECT_FALSE(parse_cpu_list(wrong).has_value()) << wrong;
}

CpuTopology four_cores() {
  CpuTopology topology;
  topology.logical = 8;
  topology.physical = 4;
  return topology;
}

TEST(ChooseThreads, TheFlagWinsOverTheEnvironmentOverTheCores) {
  const ThreadChoice by_default = choose_threads(four_cores(), std::nullopt, nullptr).value();
  EXPECT_EQ(by_default.threads, 4);
  EXPECT_EQ(by_default.reason, "4 physical cores (8 hardware threads)");
  EXPECT_EQ(by_default.warning, "");
  const ThreadChoice by_environment = choose_threads(four_cores(), std::nullopt, "3").value();
  EXPECT_EQ(by_environment.threads, 3);
  EXPECT_EQ(by_environment.reason, "OMP_NUM_THREADS");
  const ThreadChoice by_flag = choose_threads(four_cores(), 2, "3").value();
  EXPECT_EQ(by_flag.threads, 2);
  EXPECT_EQ(by_flag.reason, "--threads");
}

TEST(ChooseThreads, TheFirstNumberOfAListCounts) {
  EXPECT_EQ(choose_threads(four_cores(), std::nullopt, "6,2").value().threads, 6);
  EXPECT_EQ(choose_threads(four_cores(), std::nullopt, " 5 , 1").value().threads, 5);
}

TEST(ChooseThreads, ANonsensicalEnvironmentIsIgnoredAloud) {
  for (const char* wrong : {"zero", "0", "-2", "4x", ",4", "1.5", "99999999999999999999", "2000"}) {
    const ThreadChoice choice = choose_threads(four_cores(), std::nullopt, wrong).value();
    EXPECT_EQ(choice.threads, 4) << wrong;
    EXPECT_EQ(choice.warning,
              fmt::format("OMP_NUM_THREADS={} is not a number of threads in [1, 1024]: ignored", wrong));
  }
  EXPECT_EQ(choose_threads(four_cores(), std::nullopt, "").value().warning, "");
}

TEST(ChooseThreads, AWrongFlagIsAnError) {
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, int64_t{1025}, int64_t{1} << 40}) {
    const auto choice = choose_threads(four_cores(), wrong, "3");
    EXPECT_EQ(choice.status().code(), Code::kUsage) << wrong;
    EXPECT_NE(choice.status().hint(), "");
  }
}

TEST(ChooseThreads, MoreThanTheMachineHasIsGrantedWithAWarning) {
  const ThreadChoice choice = choose_threads(four_cores(), 9, nullptr).value();
  EXPECT_EQ(choice.threads, 9);
  EXPECT_EQ(choice.warning, "9 threads on 8 CPUs: they will get in each other's way");
}

TEST(RealMachine, SaysSomethingSensible) {
  const CpuTopology topology = read_cpu_topology(real_file_system());
  EXPECT_GE(topology.physical, 1);
  EXPECT_LE(topology.physical, topology.logical);
  EXPECT_GE(topology.default_threads(), 1);
  EXPECT_EQ(topology.cpus.size(), static_cast<size_t>(topology.logical));
}

}  // namespace
}  // namespace lockstep
