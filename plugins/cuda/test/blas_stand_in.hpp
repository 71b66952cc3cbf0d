// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The controls of the stand-in for cuBLASLt, found with dlsym.
#pragma once

#include "driver_stand_in.hpp"

// Forgets the calls so far, and takes new settings, separated by blanks:
//   fail=FUNCTION:N:STATUS  the n-th call of an exported function from now on returns STATUS
//   workspace=N             bytes that an algorithm wants, as far as it may have them
//   none                    the heuristic finds no algorithm
//   least=N                 nor where an address may be less aligned than N bytes
//   early=N                 the first N algorithms of the heuristic round before they add anything, and calls of them
//                           say "early"
//   between=N               the first N that are not early round when they have added an addend, and say "between"
using BlasConfigure = void (*)(const char *settings);
// The first line counts what is there ("descriptions=1 layouts=3 preferences=0"); a line follows for each call, with
// what was wrong about it, if anything. Valid until the next call on this thread.
using BlasReport = const char *(*)();
// blasStandInUse: from now on products are queued by the driver's stand-in.
using BlasUse = void (*)(StandInQueue queue);
