// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A whole run of the kit: cases, workers, judgement, reports.
#pragma once

#include "options.hpp"

namespace mortise::conformance {

int runKit(const Options &options);
int listCases(const Options &options);                                   // ids, and what is covered
int showDifference(const std::string &before, const std::string &after); // of two report.json

} // namespace mortise::conformance
