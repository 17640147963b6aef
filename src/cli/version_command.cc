#include <fmt/format.h>

#include "cli/build_info.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"

namespace lockstep::cli {
namespace {

Result<int> run_version(const ParsedCommand&) {
  std::string isas;
  for (const std::string& name : kernels::available_isas())
    isas += (isas.empty() ? "" : ", ") + name + (name == kernels::current_isa() ? " (in use)" : "");
  std::string missing;
  for (const std::string& name : kernels::unavailable_isas()) missing += (missing.empty() ? "" : ", ") + name;
  write_stdout(fmt::format("lockstep {}\ncompiler {}\n{}\nkernels for {}{}\n", version_text(), kBuildCompiler,
                           kernels::gemm_library(), isas,
                           missing.empty() ? "" : fmt::format("; not on this CPU: {}", missing)));
  return 0;
}

}  // namespace

std::string version_text() {
  return kBuildCommit[0] == '\0' ? std::string(kBuildVersion)
                                 : fmt::format("{} ({})", kBuildVersion, kBuildCommit);
}

Command version_command() {
  return {"version", "", 0,          0, "print version, compiler, libraries and instruction sets",
          "",        {}, run_version};
}

}  // namespace lockstep::cli
