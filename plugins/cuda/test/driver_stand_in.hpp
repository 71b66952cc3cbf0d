// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The controls of the driver's stand-in, found with dlsym.
#pragma once

// Forgets the calls so far, and takes new settings, separated by blanks:
//   fail=FUNCTION:N:RESULT  the n-th call of an exported function (cuMemAlloc_v2) from now on returns RESULT; one that
//   a
//                           driver would repeat for ever (700, an illegal address) is then the result of all calls
//   hold                    queries of streams and events find work that has not happened
//   devices=N version=V     what the driver has, in a process that has not asked yet
// The environment variable MORTISE_TEST_CUDA_STAND_IN holds the settings at the start.
using StandInConfigure = void (*)(const char *settings);
// The first line counts what is there ("allocations=0 streams=1 events=0 graphs=0 executables=0 libraries=0
// registrations=0"); a line follows for each call ("cuLaunchKernel stream=2 blocks=16"). Valid until the next call on
// this thread.
using StandInReport = const char *(*)();
// standInWork: a line for each piece of work that has happened since the last configuration, whether it was queued by
// itself or in a graph, with its parameters ("kernel softmax blocks=16 threads=128 arguments=7f00,7f80"). Valid
// likewise. standInQueue: queues work of another library's stand-in on a stream: work(context), perhaps several times,
// perhaps never; at last end(context).
using StandInQueue = void (*)(void *stream, const char *text, void (*work)(void *), void (*end)(void *), void *context);
