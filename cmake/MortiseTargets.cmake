include("${CMAKE_CURRENT_LIST_DIR}/MortiseLLVM.cmake") # mortise_link_llvm

# mortise_library(NAME [LLVM] SOURCES... DEPENDS...): a static library of ours with warnings as errors.
# LLVM: may include LLVM and MLIR headers (system headers, no RTTI); without it a target cannot see them.
function(mortise_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Werror -Wno-unused-parameter -Wno-missing-field-initializers)
endfunction()

# mortise_test(TARGET [arguments of gtest_discover_tests]): a program of GoogleTest. Compiling it takes longer than running it, so it is
# optimised less.
find_package(GTest REQUIRED)
include(GoogleTest)
function(mortise_test target)
  mortise_warnings(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest_main)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources number)
  if(number GREATER 3) # with fewer, precompiling costs what it saves
    target_precompile_headers(${target} PRIVATE <algorithm> <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  # A kernel from the disk would hide what its compilation does.
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TEST_PREFIX" "PROPERTIES")
  set_property(GLOBAL APPEND PROPERTY MORTISE_TESTS ${target})
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${arg_TEST_PREFIX}"
                       PROPERTIES ENVIRONMENT MORTISE_KERNEL_CACHE=off ${arg_PROPERTIES})
endfunction()

# mortise_targets(FOLDER RESULT): the targets of the folder and of those below it that `all` builds.
function(mortise_targets folder result)
  set(found)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(left_out ${target} EXCLUDE_FROM_ALL)
    get_target_property(kind ${target} TYPE)
    if(NOT left_out AND NOT kind STREQUAL INTERFACE_LIBRARY)
      list(APPEND found ${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    mortise_targets("${below}" more)
    list(APPEND found ${more})
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

function(mortise_use_llvm target)
  target_include_directories(${target} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_definitions(${target} PRIVATE ${definitions})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
endfunction()

function(mortise_library target)
  cmake_parse_arguments(arg "LLVM" "" "SOURCES;DEPENDS;INCLUDES" ${ARGN})
  add_library(${target} STATIC ${arg_SOURCES})
  mortise_warnings(${target})
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>")
  foreach(include ${arg_INCLUDES})
    target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${include}>")
  endforeach()
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS})
  if(arg_LLVM)
    mortise_use_llvm(${target})
  endif()
endfunction()
