# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the build BUILD into WORK and builds SOURCE against it.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(code)
    message(FATAL_ERROR "${ARGN}: ${code}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
foreach(component abi mortise)
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix" --component ${component})
endforeach()
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/build" -G Ninja "-DCMAKE_PREFIX_PATH=${WORK}/prefix"
    "-DCMAKE_C_COMPILER=${CC}" "-DCMAKE_CXX_COMPILER=${CXX}")
run("${CMAKE_COMMAND}" --build "${WORK}/build")
# The plugins come from the build, as if from a user's own folder.
set(ENV{MORTISE_PLUGIN_PATH} "${PLUGINS}")
run("${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}/build" --output-on-failure)
