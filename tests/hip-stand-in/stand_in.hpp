// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the stand-in exports beside HIP's functions. Tests look these up in the library that the plugin has opened.
#pragma once

extern "C" {
// Settings, words with blanks between them, for what follows; counts of calls and problems start anew:
//   devices=2 arch=gfx942,gfx1100   how many GPUs, and what they are (the last one for all others)
//   version=60232830                of HIP
//   pools=1                         whether there are memory pools
//   wave=0                          threads in a wave; 0: what the architecture has
//   calls=1                         whether calls are written down
//   order=random seed=1             when queued work happens: `random`, some of it at any call; `lazy`, as late as what
//                                   waits allows, the last stream first; `eager`, when it is queued
//   fail=hipMalloc:2:2              the second call of that function answers so; `*` counts all calls
//   report=FILE                     problems are appended to it, a line each, and at the end a line with counts
using StandInConfigure = void (*)(const char *settings);
// All work is done first. A line with what there is ("streams=0 events=0 modules=0 allocations=0 registrations=0
// launches=0 calls=0"), then the calls since the last configuration, a line each. Valid until the next call.
using StandInReport = const char *(*)();
// What the caller did wrong since the last configuration, a line each. All work is done before.
using StandInProblems = const char *(*)();
}
