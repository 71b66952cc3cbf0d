// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The controls of the stand-in for cuDNN, found with dlsym.
#pragma once

#include "driver_stand_in.hpp"

// Forgets the calls so far, and takes new settings, separated by blanks:
//   fail=FUNCTION:N:STATUS        the n-th call of an exported function from now on returns STATUS
//   engine=NAME:NOTES:WORKSPACE   an engine that the heuristics offer, after those named before; NOTES are numerical
//                                 notes, with + between, or -. Without any: "usual", without notes, 1000 bytes. One
//                                 whose name begins with "fixed" compiles nothing, and rounds sums to the type of the
//                                 result before it does anything else with them
//   broken=NAME                   no plan can be made of this engine
//   together=N                    the first N plans are made when N threads make one, and fail after ten seconds
//   refuse=WHAT                   no engine for graphs that are "fused" (with pointwise operations), "widened" (16-bit
//                                 operands and a result of f32) or "narrow" (16-bit operands)
using DnnConfigure = void (*)(const char *settings);
// The first line counts what is there ("descriptors=1 handles=1"); a line follows for each call that creates a handle,
// makes a plan or executes one, and for each that was wrong. Valid until the next call on this thread.
using DnnReport = const char *(*)();
// dnnStandInUse: from now on convolutions are queued by the driver's stand-in.
using DnnUse = void (*)(StandInQueue queue);
