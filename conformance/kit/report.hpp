// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reports of a run. report.json follows conformance/report.schema.json; the others are made from it alone.
#pragma once

#include "judgement.hpp"

namespace mortise::conformance {

struct Subject { // what a report is about
  runtime::Manifest manifest;
  std::string library, librarySha256, kitSha256;
  std::string device, deviceName, features;
};

Json reportOf(const Options &options, const Subject &subject, const Swept &swept, const Judgement &judgement,
              const Coverage &coverage, double seconds);

std::string junitOf(const Json &report);
std::string pageOf(const Json &report);                     // one file of HTML, which loads nothing
std::string rooflinesText(const Json &report);              // its picture and table of the level perf, or ""
std::string speedsText(const Json &report);                 // what a terminal is told of that level, or ""
std::string summaryOf(const Json &report);                  // for a terminal
std::string repeatOf(const Json &report, const Json &line); // the command that repeats one of its cases

// What changed from one report to another: cases by id. `worse`: whether a case no longer passes, or is gone.
std::string differenceOf(const Json &before, const Json &after, bool &worse);

} // namespace mortise::conformance
