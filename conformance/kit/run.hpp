// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A whole run of the kit: cases, workers, judgement, reports.
#pragma once

#include "options.hpp"

namespace mortise::conformance {

// The points that are asked for, and what they cover.
Result<std::vector<Point>> chosen(const Options &options, Coverage &coverage);

int runKit(const Options &options);

// Judges results that are computed outside: writes each case with one result to standard output, reads that result
// from standard input, and writes the verdict. A case is a line of JSON, then the bytes of its operands; a result is a
// line of JSON, then bytes. For frameworks that are no plugins. Cases in which another node stands before the op are
// left out.
int judgeOutside(const Options &options);
int repeatRegion(const Options &options);                                // Options::region, in a process of its own
int listCases(const Options &options);                                   // ids, and what is covered
int showDifference(const std::string &before, const std::string &after); // of two report.json

} // namespace mortise::conformance
