# One call per module:
#   lockstep_module(NAME data DEPS base SOURCES ... HEADERS ... LIBS ... TESTS ... TEST_LIBS ...)
# makes the library lockstep_data and, from TESTS, the test program data_test.
# Includes are written "module/file.h"; DEPS lists the modules whose headers may be included.
include_guard(GLOBAL)

add_library(lockstep_options INTERFACE)
target_include_directories(lockstep_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
# No contraction: the same source must round the same way on every machine (design: bit-identical update).
target_compile_options(lockstep_options INTERFACE
  -ffp-contract=off -fno-math-errno -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
  # With sanitizers on, GCC takes moved optionals and vectors for uninitialised ones.
  target_compile_options(lockstep_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

function(lockstep_module)
  cmake_parse_arguments(M "" "NAME" "DEPS;SOURCES;HEADERS;LIBS;TESTS;TEST_LIBS" ${ARGN})
  set(target lockstep_${M_NAME})
  add_library(${target} STATIC ${M_SOURCES})
  target_link_libraries(${target} PUBLIC lockstep_options ${M_LIBS})
  foreach(dep IN LISTS M_DEPS)
    target_link_libraries(${target} PUBLIC lockstep_${dep})
  endforeach()
  if(M_HEADERS)
    target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR}/src FILES ${M_HEADERS})
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  endif()
  if(LOCKSTEP_TESTS AND M_TESTS)
    add_executable(${M_NAME}_test ${M_TESTS})
    target_link_libraries(${M_NAME}_test PRIVATE
      ${target} ${M_TEST_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
    target_compile_definitions(${M_NAME}_test PRIVATE LOCKSTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    include(GoogleTest)
    # Listed when ctest starts, not while building: a program that cannot even list its tests fails there.
    gtest_discover_tests(${M_NAME}_test TEST_PREFIX "${M_NAME}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      NO_PRETTY_VALUES
      PROPERTIES TIMEOUT 300)
  endif()
endfunction()
