# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sets MORTISE_CUDA_INCLUDE to the folder of cuda.h. Nothing of CUDA is linked: the driver is opened at run time.
set(folders "")
foreach(prefix ${CMAKE_PREFIX_PATH})
  file(GLOB found "${prefix}/lib/python*/site-packages/nvidia/cu13/include")
  list(APPEND folders ${found})
endforeach()
find_path(MORTISE_CUDA_INCLUDE cuda.h PATHS ${folders} /usr/local/cuda/include DOC "The folder of cuda.h" NO_DEFAULT_PATH)
if(NOT MORTISE_CUDA_INCLUDE)
  message(FATAL_ERROR "expected cuda.h of CUDA 12 or newer below CMAKE_PREFIX_PATH (${CMAKE_PREFIX_PATH}) or in /usr/local/cuda/include, found "
                      "none; run pip install nvidia-cuda-runtime==13.0.96 in a virtual environment that CMAKE_PREFIX_PATH names, or set "
                      "MORTISE_CUDA_INCLUDE")
endif()
file(STRINGS "${MORTISE_CUDA_INCLUDE}/cuda.h" version REGEX "^#define CUDA_VERSION [0-9]+")
string(REGEX REPLACE "[^0-9]" "" version "${version}")
if(version LESS 12000)
  message(FATAL_ERROR "expected cuda.h of CUDA 12 or newer, found ${version} in ${MORTISE_CUDA_INCLUDE}; set MORTISE_CUDA_INCLUDE")
endif()
