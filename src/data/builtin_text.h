// The text inside the binary: the project's own documents and comments at one moment, made and frozen by
// tools/make_builtin_text.py, compressed. Always the same bytes; builtin_text.sha256 beside this file has
// their hash.
#pragma once

#include <string>

namespace lockstep {

/// Decompresses it; plain ASCII, some hundred kilobytes.
std::string builtin_text();

}  // namespace lockstep
