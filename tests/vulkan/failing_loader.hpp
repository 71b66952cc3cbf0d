// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library in the place of Vulkan's loader (MORTISE_VULKAN_LOADER), which passes all calls on to it, but for one that
// fails where a test wants it. Calls that return nothing cannot fail. Thread safe.
#pragma once

extern "C" {
// "fail=NAME:N:RESULT": the N-th call from now on of vkCreateBuffer, say, or of any function (*), returns this VkResult
// and does nothing (vkWaitSemaphores waits nevertheless). "": none fails. Forgets what has been called.
using FailingLoaderConfigure = void(const char *settings);
// The functions that were called since and return a VkResult, one a line.
using FailingLoaderCalls = const char *();
// How many there are of what was made and not destroyed: "Buffer 2", one kind a line.
using FailingLoaderLiving = const char *();
}
