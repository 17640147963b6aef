#include "data/builtin_text.h"

#include <zstd.h>

#include <cstddef>

#include "base/check.h"

// The assembler puts the file into the object as it is; CMake gives its path and makes this file depend on
// it.
__asm__(
    ".pushsection .rodata\n"
    ".global lockstep_builtin_text_begin\n"
    ".global lockstep_builtin_text_end\n"
    ".hidden lockstep_builtin_text_begin\n"
    ".hidden lockstep_builtin_text_end\n"
    "lockstep_builtin_text_begin:\n"
    ".incbin \"" LOCKSTEP_BUILTIN_TEXT
    "\"\n"
    "lockstep_builtin_text_end:\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" {
extern const std::byte lockstep_builtin_text_begin[];
extern const std::byte lockstep_builtin_text_end[];
}

namespace lockstep {

std::string builtin_text() {
  const auto bytes = static_cast<size_t>(lockstep_builtin_text_end - lockstep_builtin_text_begin);
  const unsigned long long size = ZSTD_getFrameContentSize(lockstep_builtin_text_begin, bytes);
  LOCKSTEP_CHECK(size != ZSTD_CONTENTSIZE_ERROR && size != ZSTD_CONTENTSIZE_UNKNOWN);
  std::string text(size, '\0');
  const size_t got = ZSTD_decompress(text.data(), text.size(), lockstep_builtin_text_begin, bytes);
  LOCKSTEP_CHECK(ZSTD_isError(got) == 0 && got == text.size()) << ZSTD_getErrorName(got);
  return text;
}

}  // namespace lockstep
