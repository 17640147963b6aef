// Runs a fuzz target without libFuzzer: on every file of the folders given, then on changed copies of each,
// always the same ones. So the corpus is a test with every compiler, and a crash that the long fuzzing found
// stays found once its file lies in the corpus.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kChangedCopies = 300;

void run(const Bytes& input) {
  // A copy of exactly this size, so that AddressSanitizer sees one byte too far.
  const Bytes exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

// One to four edits: a byte set, a bit flipped, a piece removed or repeated, the end cut off.
Bytes changed(Bytes input, const lockstep::RandomStream& random, uint64_t copy) {
  auto draw = [&, index = copy * 64](uint64_t bound) mutable { return random.below(index++, bound); };
  for (uint64_t edits = 1 + draw(4); edits > 0 && !input.empty(); --edits) {
    const auto at = static_cast<ptrdiff_t>(draw(input.size()));
    const auto length =
        static_cast<ptrdiff_t>(1 + draw(std::min<uint64_t>(16, input.size() - static_cast<size_t>(at))));
    const auto begin = input.begin() + at;
    switch (draw(5)) {
      case 0:
        *begin = static_cast<uint8_t>(draw(256));
        break;
      case 1:
        *begin ^= static_cast<uint8_t>(1u << draw(8));
        break;
      case 2:
        input.erase(begin, begin + length);
        break;
      case 3: {
        const Bytes piece(begin, begin + length);
        input.insert(begin, piece.begin(), piece.end());
        break;
      }
      default:
        input.resize(static_cast<size_t>(at));
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  size_t files = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const Bytes input{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      std::printf("%s (%zu bytes)\n", entry.path().c_str(), input.size());
      std::fflush(stdout);  // so that the last line names the file that crashed
      run(input);
      const lockstep::RandomStream random(files, lockstep::Purpose::kTest);
      for (uint64_t copy = 0; copy < kChangedCopies; ++copy) run(changed(input, random, copy));
      ++files;
    }
  if (files == 0) {
    std::fprintf(stderr, "no files to replay: give a folder of inputs, such as fuzz/corpus/NAME\n");
    return 1;
  }
  std::printf("%zu files and %zu changed copies of each\n", files, static_cast<size_t>(kChangedCopies));
  return 0;
}
