// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the verdicts of a run amount to: against the expectations, the manifest's claims and the table.
#pragma once

#include "options.hpp"
#include "sweep.hpp"

#include <mortise/runtime/manifest.hpp>

namespace mortise::conformance {

// An entry of an expectations file: cases that are known not to pass.
struct Expectation {
  bool never = false;             // by design; otherwise not yet
  bool partly = false;            // some of the cases pass, by their values or on some machines
  std::vector<std::string> cases; // shell patterns of ids, in which * stands for slashes too
  Outcome outcome = Outcome::Failed;
  std::string reason;
};

// Errors name the key that is missing, wrong or not known.
Result<std::vector<Expectation>> readExpectations(const std::string &path);

bool isBad(Outcome outcome); // failed, crashed or hung
// Whether an entry says that the verdict is as it is.
bool isExpected(const Verdict &verdict, const std::vector<Expectation> &expectations);

struct Judgement {
  std::map<Outcome, size_t> sums;
  std::vector<const Verdict *> failures; // failed, crashed or hung, and not expected to
  std::vector<const Verdict *> excused;  // as an entry of the expectations says
  std::vector<std::string> unexpected;   // entries that are no longer true
  std::vector<std::string> unproven;     // claims
  size_t provenPairs = 0;                // of an op and an element type: a case of it passed
  std::string shrunken, broken;          // why; "" when it is not
  Exit exit = Exit::good;
};

// `expected`: how many cases the table says that the run has.
Judgement judge(const Options &options, const Swept &swept, size_t expected, const runtime::Manifest &manifest,
                const std::vector<Expectation> &expectations);

// How many cases there are at a level, as this version was released: a table that has lost some does not pass.
size_t corpusSize(Level level, Extent extent);

} // namespace mortise::conformance
