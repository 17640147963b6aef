#include "cli/command.h"

namespace lockstep::cli {

std::span<const Command> commands() {
  static const std::vector<Command> all = {
      train_command(),      sample_command(),       inspect_command(),   inspect_step_command(),
      bench_step_command(), data_prepare_command(), data_info_command(), version_command()};
  return all;
}

}  // namespace lockstep::cli
