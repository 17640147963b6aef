#include <fmt/format.h>

#include "cli/command.h"
#include "cli/terminal.h"
#include "data/dataset.h"

namespace lockstep::cli {
namespace {

DataOptions data_options(const ParsedCommand& parsed) {
  DataOptions options;
  options.spec = parsed.arguments[0];
  options.search_path = parsed.list("data-path");
  options.allow_download = !parsed.has("no-download");
  return options;
}

std::vector<Flag> place_flags() {
  return {{"data-path", FlagKind::kList, "DIR", "flags",
           "Folder to look for `shakespeare` in; may be repeated. After it come $LOCKSTEP_DATA and "
           "~/.cache/lockstep."},
          {"no-download", FlagKind::kSwitch, "", "flags", "Never fetch a data set from the network."}};
}

Result<int> run_prepare(const ParsedCommand& parsed) {
  const std::string directory = parsed.value("out-dir", "");
  if (directory.empty())
    return Status(Code::kUsage, "lockstep data prepare needs --out-dir")
        .with_hint("for example: lockstep data prepare shakespeare --out-dir data/shakespeare_char");
  LOCKSTEP_ASSIGN(const std::vector<PreparedFile> prepared,
                  prepare_dataset(real_file_system(), data_options(parsed), directory));
  for (const PreparedFile& file : prepared)
    write_stdout(file.tokens > 0
                     ? fmt::format("{}: {} tokens, sha256 {}\n", file.path, file.tokens, file.sha256)
                     : fmt::format("{}: sha256 {}\n", file.path, file.sha256));
  return 0;
}

Result<int> run_info(const ParsedCommand& parsed) {
  // The shortest block: whatever can be trained on at all can be looked at.
  LOCKSTEP_ASSIGN(const Dataset dataset, open_dataset(real_file_system(), data_options(parsed), 1));
  std::string text = fmt::format("data        {}\ntrain       {} tokens\nval         {} tokens\n",
                                 dataset.name, dataset.train.size(), dataset.val.size());
  text += dataset.vocab_size > 0 ? fmt::format("vocabulary  {}\n", dataset.vocab_size)
                                 : fmt::format("vocabulary  unknown, largest id {}\n", dataset.max_id);
  text += fmt::format("tokenizer   {}\ncontent     {}\n", dataset.tokenizer ? "characters" : "none",
                      dataset.content_hash);
  write_stdout(text);
  return 0;
}

}  // namespace

Command data_prepare_command() {
  std::vector<Flag> flags = place_flags();
  flags.insert(flags.begin(), {"out-dir", FlagKind::kValue, "DIR", "flags",
                               "Where train.bin, val.bin and meta.json go: nanoGPT's format."});
  return {"data prepare",
          "DATA --out-dir DIR [flags]",
          1,
          1,
          "turn a text into nanoGPT's token files",
          "DATA is builtin, shakespeare or a UTF-8 text file. The first nine tenths of its characters train, "
          "the rest validates.",
          std::move(flags),
          run_prepare};
}

Command data_info_command() {
  return {"data info",
          "DATA [flags]",
          1,
          1,
          "tell what a data set is",
          "DATA is builtin, shakespeare, a UTF-8 text file, or a folder with train.bin and val.bin.",
          place_flags(),
          run_info};
}

}  // namespace lockstep::cli
