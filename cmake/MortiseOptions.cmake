# Settings that every target shares.
option(MORTISE_SHARED_LLVM "Link libLLVM.so and libMLIR.so instead of the static archives (quick links, dev only)" OFF)
set(MORTISE_SANITIZE "" CACHE STRING "Sanitizers for everything of ours: address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

find_program(MORTISE_CCACHE ccache)
if(MORTISE_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER "${MORTISE_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime "${MORTISE_CCACHE}")
endif()
add_link_options(-fuse-ld=lld -Wl,--no-undefined)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Xclang -fno-pch-timestamp) # lets ccache reuse what a precompiled header went into
endif()
if(MORTISE_SANITIZE)
  add_compile_options(-fsanitize=${MORTISE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${MORTISE_SANITIZE} -Wl,--undefined-version -Wl,-z,undefs)
  add_compile_definitions(MORTISE_SANITIZED)
  if(MORTISE_SANITIZE STREQUAL "thread")
    add_compile_definitions(MORTISE_THREAD_SANITIZED)
  endif()
endif()

# LLVM_DIR and MLIR_DIR come from the presets (Debian's /usr/lib/llvm-22).
find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(AddLLVM) # what TableGen and AddMLIR call
include(TableGen)
include(AddMLIR) # mlir_tablegen
