# Writes OUTPUT, the definitions of cli/build_info.h; untouched when nothing changed.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
else()
  execute_process(COMMAND git -C ${SOURCE_DIR} diff --quiet HEAD -- RESULT_VARIABLE changed ERROR_QUIET)
  if(changed)
    string(APPEND commit ", changed")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Made by cmake/BuildInfo.cmake.
#include "cli/build_info.h"

namespace lockstep::cli {

const char* const kBuildVersion = "@VERSION@";
const char* const kBuildCommit = "@commit@";
const char* const kBuildCompiler = "@COMPILER@";

}  // namespace lockstep::cli
]])
