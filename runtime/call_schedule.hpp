// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The schedules of a specialisation's calls: which memory each operation uses, and what a call on callers' streams
// comes behind there.
#pragma once

#include "specialisation.hpp"

namespace mortise::runtime {

// Of a call that ends when all its work has happened; one item per operation. `specialisation` has its shape and
// workspaces.
Schedule scheduleOfCall(const Layout &layout, const Specialisation &specialisation);

// Of a call on streams that findTimelines() has found.
Specialisation::Queued schedulesOnStreams(const Layout &layout, const Specialisation &specialisation,
                                          std::span<const CallersStream> callers);

// The timelines that callers' streams stand for, ascending. None where a stream stands for none, so that a call's work
// would not be ordered by it: then the streams have been waited for. Errors: MORTISE_INVALID_ARGUMENT (two streams of
// one device).
Result<void> findTimelines(const Layout &layout, std::span<const CallerStream> callers,
                           std::vector<CallersStream> &found);

} // namespace mortise::runtime
