# mortise_add_plugin: builds one plugin as the loader expects it.
set(MORTISE_PLUGIN_EXPORTS "${CMAKE_CURRENT_LIST_DIR}/plugin.exports" CACHE INTERNAL "what a plugin exports")
set(MORTISE_PLUGIN_MANIFEST_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/PluginManifest.cmake" CACHE INTERNAL "writes manifests")
set(MORTISE_PLUGIN_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/mortise/plugins" CACHE PATH "Where plugins are put")

# mortise_plugin_manifest(TARGET MANIFEST OUTPUT): writes the manifest beside the library, with the library's hash, whenever it is linked.
# In the folder that makes the target.
function(mortise_plugin_manifest target manifest output)
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DMANIFEST=${manifest}" "-DLIBRARY=$<TARGET_FILE:${target}>" "-DOUTPUT=${output}"
            -P "${MORTISE_PLUGIN_MANIFEST_SCRIPT}" VERBATIM)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${manifest}" "${MORTISE_PLUGIN_MANIFEST_SCRIPT}")
endfunction()

# mortise_install_plugin(TARGET MANIFEST): both, which have one name. Installing may strip the library or change its run path.
function(mortise_install_plugin target manifest)
  get_filename_component(name "${manifest}" NAME_WE)
  install(TARGETS ${target} LIBRARY DESTINATION lib/mortise/plugins COMPONENT plugins)
  install(FILES "${manifest}" DESTINATION lib/mortise/plugins COMPONENT plugins)
  install(CODE "set(plugin \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/mortise/plugins/${name}\")
    execute_process(COMMAND \"\${CMAKE_COMMAND}\" \"-DMANIFEST=\${plugin}.toml\" \"-DLIBRARY=\${plugin}.so\"
      \"-DOUTPUT=\${plugin}.toml\" -P \"${MORTISE_PLUGIN_MANIFEST_SCRIPT}\" COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT plugins)
endfunction()

# mortise_add_plugin(NAME SOURCES files... MANIFEST file [LINK libraries...] [OUTPUT_DIRECTORY folder])
#
# Makes the target mortise_NAME: libmortise_NAME.so with libmortise_NAME.toml beside it. The library exports mortise_plugin
# and nothing else, and has no undefined symbols. Linking Mortise::codegen brings LLVM, hidden inside the library.
function(mortise_add_plugin name)
  cmake_parse_arguments(arg "" "MANIFEST;OUTPUT_DIRECTORY" "SOURCES;LINK" ${ARGN})
  if(NOT arg_SOURCES OR NOT arg_MANIFEST)
    message(FATAL_ERROR "mortise_add_plugin(${name}): expected SOURCES and MANIFEST, found '${ARGN}'")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mortise_add_plugin(${name}): unknown arguments '${arg_UNPARSED_ARGUMENTS}'; "
                        "it takes SOURCES, MANIFEST, LINK and OUTPUT_DIRECTORY")
  endif()
  set(folder "${arg_OUTPUT_DIRECTORY}")
  if(NOT folder)
    set(folder "${MORTISE_PLUGIN_OUTPUT_DIRECTORY}")
  endif()
  get_filename_component(manifest "${arg_MANIFEST}" ABSOLUTE)

  set(target mortise_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE Mortise::abi ${arg_LINK})
  set_target_properties(${target} PROPERTIES
    PREFIX "lib" SUFFIX ".so" LIBRARY_OUTPUT_DIRECTORY "${folder}" POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wno-unused-parameter -Wno-missing-field-initializers)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${MORTISE_PLUGIN_EXPORTS}")
  target_link_options(${target} PRIVATE "-Wl,--version-script=${MORTISE_PLUGIN_EXPORTS}" -Wl,--exclude-libs,ALL -Wl,-z,now
                      -Wl,--as-needed)
  if(NOT MORTISE_SANITIZE AND NOT "${CMAKE_CXX_FLAGS} ${CMAKE_C_FLAGS}" MATCHES "-fsanitize=")
    target_link_options(${target} PRIVATE -Wl,--no-undefined) # a sanitizer's run time is linked into the program, not the plugin
  endif()
  foreach(toolkit Mortise::codegen Mortise::codegen_ptx Mortise::codegen_hsaco Mortise::codegen_spirv)
    if(toolkit IN_LIST arg_LINK)
      mortise_link_codegen(${target} ${toolkit})
    endif()
  endforeach()

  set(beside "${folder}/lib${target}.toml")
  mortise_plugin_manifest(${target} "${manifest}" "${beside}")
  mortise_install_plugin(${target} "${beside}")
endfunction()

# mortise_link_codegen(TARGET [TOOLKIT]): links the toolkit (by default Mortise::codegen) and the LLVM that it needs, for a final binary: a
# plugin or its tests.
function(mortise_link_codegen target)
  set(toolkit ${ARGV1})
  if(NOT toolkit)
    set(toolkit Mortise::codegen)
  endif()
  get_target_property(mlir ${toolkit} MORTISE_MLIR_LIBRARIES)
  get_target_property(llvm ${toolkit} MORTISE_LLVM_COMPONENTS)
  if(NOT mlir OR NOT llvm)
    message(FATAL_ERROR "mortise_link_codegen(${target}): ${toolkit} does not say which MLIR and LLVM libraries it needs; "
                        "this SDK is broken, install it anew")
  endif()
  # The core by name, too: as a dependency alone it would stand behind LLVM, and linkers other than lld look at each archive once.
  target_link_libraries(${target} PRIVATE ${toolkit} Mortise::codegen_core)
  mortise_link_llvm(${target} MLIR ${mlir} LLVM ${llvm})
endfunction()
