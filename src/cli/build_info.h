// What the build knows about itself; the values are written by cmake/BuildInfo.cmake.
#pragma once

namespace lockstep::cli {

extern const char* const kBuildVersion;
extern const char* const kBuildCommit;  ///< "" outside a git checkout
extern const char* const kBuildCompiler;

}  // namespace lockstep::cli
