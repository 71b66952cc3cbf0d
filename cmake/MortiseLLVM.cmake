# How binaries of ours, and plugins that use the code generation toolkit, link LLVM. Installed with the SDK.
# Debian's exported targets mix the static and the shared LLVM (duplicate option registrations abort at start), so
# these functions take only one kind: MORTISE_SHARED_LLVM chooses.

# The archive where there is one, because manylinux, and with it a wheel, counts on zlib but not on zstd.
find_library(MORTISE_ZSTD NAMES libzstd.a zstd REQUIRED)

# mortise_link_llvm(TARGET MLIR libraries... LLVM components...): for a final binary. Among the components may be lldELF, which only
# archives hold (Debian package liblld-22-dev).
function(mortise_link_llvm target)
  cmake_parse_arguments(arg "" "" "MLIR;LLVM" ${ARGN})
  if(lldELF IN_LIST arg_LLVM)
    list(REMOVE_ITEM arg_LLVM lldELF)
    if(NOT EXISTS "${LLVM_LIBRARY_DIR}/liblldELF.a")
      message(FATAL_ERROR "mortise_link_llvm(${target}): expected ${LLVM_LIBRARY_DIR}/liblldELF.a, found none; install liblld-${LLVM_VERSION_MAJOR}-dev")
    endif()
    target_link_libraries(${target} PRIVATE "${LLVM_LIBRARY_DIR}/liblldELF.a" "${LLVM_LIBRARY_DIR}/liblldCommon.a" z "${MORTISE_ZSTD}")
  endif()
  if(MORTISE_SHARED_LLVM)
    target_link_libraries(${target} PRIVATE "${LLVM_LIBRARY_DIR}/libMLIR.so" "${LLVM_LIBRARY_DIR}/libLLVM.so")
  else()
    # Archives by file name, not by exported target: the targets drag in libLLVM.so.
    llvm_map_components_to_libnames(llvm ${arg_LLVM} Core Remarks Support) # MLIR's own needs, which it names only as "LLVM"
    mortise_archives(files ${arg_MLIR} ${llvm})
    target_link_libraries(${target} PRIVATE -Wl,--start-group ${files} -Wl,--end-group z "${MORTISE_ZSTD}" xml2 m dl pthread)
    target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections)
  endif()
endfunction()

# The archives of MLIR and LLVM targets and of everything they link.
function(mortise_archives out)
  set(todo ${ARGN})
  set(seen "")
  set(files "")
  while(NOT "${todo}" STREQUAL "") # a bare list whose last item ends in -NOTFOUND would count as false
    list(POP_FRONT todo library)
    if(library IN_LIST seen OR NOT library MATCHES "^(MLIR|LLVM).+")
      continue()
    endif()
    list(APPEND seen ${library})
    if(EXISTS "${LLVM_LIBRARY_DIR}/lib${library}.a")
      list(APPEND files "${LLVM_LIBRARY_DIR}/lib${library}.a")
    endif()
    if(TARGET ${library})
      get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
      foreach(link ${links})
        string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
        list(APPEND todo ${link})
      endforeach()
    endif()
  endwhile()
  set(${out} ${files} PARENT_SCOPE)
endfunction()
