// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "judgement.hpp"

#include <algorithm>
#include <fnmatch.h>
#include <set>

namespace mortise::conformance {
namespace {

bool matches(const Expectation &entry, const std::string &id) {
  return std::ranges::any_of(entry.cases,
                             [&](const std::string &pattern) { return fnmatch(pattern.c_str(), id.c_str(), 0) == 0; });
}

// Whether a case of any level is like the entry's patterns.
bool fitsAnywhere(const Expectation &entry) {
  for (size_t level = 0; level < std::size(levelNames); ++level)
    for (const Point &point : pointsOf(static_cast<Level>(level), Extent::Full))
      if (matches(entry, idOf(point)))
        return true;
  return false;
}

// What a claim, which names ops, element types and a rank, promises nothing about.
bool isBeyondClaims(const std::string &reason) {
  constexpr const char *list[] = {"needs-static", "layout", "memory",  "size", "option",
                                  "hardware",     "forms",  "no-pair", "opset"};
  return std::ranges::find(list, reason) != std::end(list);
}

// Another node takes part, or outputs that the op alone does not have.
bool hasMoreThanItsOp(const Point &point) {
  const std::string &variant = rowOf(point.op)->variants[point.variant];
  return point.shape == Shape::Broadcast || point.layout == Layout::Updated || point.layout == Layout::Twice ||
         point.layout == Layout::Passed || variant.starts_with("of-");
}

class Claims {
public:
  explicit Claims(const runtime::Manifest &manifest) : manifest(manifest) {}

  bool cover(const Point &point) {
    const std::string op(nameOf(point.op));
    for (const runtime::ManifestClaim &claim : manifest.claims)
      if (std::ranges::find(claim.dtypes, dtypeName(point.dtype)) != claim.dtypes.end() &&
          std::ranges::any_of(claim.ops,
                              [&](const auto &pattern) { return fnmatch(pattern.c_str(), op.c_str(), 0) == 0; }) &&
          rankOf(point) <= claim.maxRank)
        return true;
    return false;
  }

private:
  // The largest rank of the case's values; extents do not count.
  uint32_t rankOf(const Point &point) {
    const auto [found, isNew] = ranks.try_emplace({point.op, point.dtype, point.shape, point.variant});
    if (isNew)
      found->second = factsOf(point).rank;
    return found->second;
  }
  const runtime::Manifest &manifest;
  std::map<std::tuple<Op, int32_t, Shape, uint16_t>, uint32_t> ranks;
};

// A claim is proven by a case that passes, for each class of shapes.
void proveClaims(Judgement &made, const Swept &swept, const runtime::Manifest &manifest,
                 const std::set<const Verdict *> &excused) {
  struct Proof {
    bool passed = false;
    const Verdict *refused = nullptr;
  };
  Claims claims(manifest);
  std::map<std::tuple<Op, int32_t, Shape>, Proof> proofs;
  std::set<std::pair<Op, int32_t>> pairs;
  for (const Verdict &verdict : swept.verdicts) {
    const auto point = pointOf(verdict.id);
    if (!point || point->probe != Probe::None)
      continue;
    if (verdict.outcome == Outcome::Passed)
      pairs.insert({point->op, point->dtype});
    if (hasMoreThanItsOp(*point) || !claims.cover(*point))
      continue;
    Proof &proof = proofs[{point->op, point->dtype, point->shape}];
    proof.passed |= verdict.outcome == Outcome::Passed || excused.contains(&verdict);
    if (verdict.outcome == Outcome::Refused && !isBeyondClaims(verdict.reason) && !proof.refused)
      proof.refused = &verdict;
  }
  made.provenPairs = pairs.size();
  for (const auto &[key, proof] : proofs)
    if (!proof.passed && proof.refused)
      made.unproven.push_back(std::string(nameOf(std::get<0>(key))) + " in " + dtypeName(std::get<1>(key)) +
                              ", shape " + shapeNames[static_cast<size_t>(std::get<2>(key))] + ": " +
                              proof.refused->reason + ": " + proof.refused->why);
}

void checkExpectations(Judgement &made, const Options &options, const Swept &swept,
                       const std::vector<Expectation> &expectations) {
  for (const Expectation &entry : expectations) {
    size_t fitting = 0, passed = 0;
    std::string first;
    for (const Verdict &verdict : swept.verdicts)
      if (matches(entry, verdict.id)) {
        ++fitting;
        if (verdict.outcome == Outcome::Passed && passed++ == 0)
          first = verdict.id;
      }
    const std::string name = std::string(entry.never ? "never" : "not-yet") + " " + runtime::join(entry.cases);
    if (fitting == 0 && options.isWhole() && !fitsAnywhere(entry))
      made.unexpected.push_back(name + ": fits no case; correct or remove it");
    else if (passed && !entry.never && (!entry.partly || (passed == fitting && options.isWhole())))
      made.unexpected.push_back(name + ": " + std::to_string(passed) + " of " + std::to_string(fitting) +
                                " cases pass, such as " + first + "; narrow or remove it");
  }
}

} // namespace

bool isBad(Outcome outcome) { return outcome != Outcome::Passed && outcome != Outcome::Refused; }

bool isExpected(const Verdict &verdict, const std::vector<Expectation> &expectations) {
  return std::ranges::any_of(expectations, [&](const Expectation &entry) {
    return entry.outcome == verdict.outcome && matches(entry, verdict.id);
  });
}

Judgement judge(const Options &options, const Swept &swept, size_t expected, const runtime::Manifest &manifest,
                const std::vector<Expectation> &expectations) {
  Judgement made;
  made.broken = swept.broken;
  std::set<const Verdict *> excused;
  for (const Verdict &verdict : swept.verdicts) {
    ++made.sums[verdict.outcome];
    if (verdict.outcome == Outcome::Passed)
      continue;
    if (isExpected(verdict, expectations)) {
      excused.insert(&verdict);
      made.excused.push_back(&verdict);
    } else if (isBad(verdict.outcome)) {
      made.failures.push_back(&verdict);
    }
  }
  if (options.stopsAtFailure && !made.failures.empty()) { // what else there was to say is not known
    made.exit = Exit::failed;
    return made;
  }
  checkExpectations(made, options, swept, expectations);
  proveClaims(made, swept, manifest, excused);
  if (swept.verdicts.size() < expected)
    made.shrunken = "expected " + std::to_string(expected) + " cases, found " + std::to_string(swept.verdicts.size());
  const size_t executed = swept.verdicts.size() - made.sums[Outcome::Refused];
  if (!made.broken.empty() && swept.verdicts.empty())
    made.exit = Exit::unusable;
  else if (executed == 0)
    made.exit = Exit::nothing;
  else if (!made.shrunken.empty())
    made.exit = Exit::shrunken;
  else if (!made.failures.empty())
    made.exit = Exit::failed;
  else if (!made.unexpected.empty())
    made.exit = Exit::unexpected;
  else if (!made.unproven.empty())
    made.exit = Exit::unproven;
  return made;
}

} // namespace mortise::conformance
