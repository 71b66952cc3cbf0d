// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A crash within a plugin leaves a line on standard error that names the plugin, the slot and the region, and then
// takes its course: handlers of the application or of a sanitizer run, cores are written. The line is also left where
// another process sends SIGABRT, so that a hang can be named before it is ended.
#pragma once

#include <mortise/runtime/call.hpp>

#include <string>

namespace mortise::runtime {

// Handles SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT from now on, ahead of what handles them so far. Once per process.
// The calling thread gets a signal stack if it has none. Not seen: a stack overflow in a thread without one; abort() in
// a thread of the plugin's own.
void watchCrashes();

// The library that `function` belongs to is this plugin's.
void nameLibrary(const void *function, const std::string &plugin, const std::string &path);

} // namespace mortise::runtime
