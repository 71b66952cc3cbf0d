// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "claims.hpp"

#include "cases.hpp"

#include <mortise/graph.hpp>

#include <algorithm>
#include <fnmatch.h>
#include <map>

namespace mortise::tool {
namespace {

std::string pairText(const std::string &op, const std::string &dtype) { return op + " in " + dtype; }

// Of the first operand, or of the first result where there is none, as cases have it.
bool allows(const MortiseOpInfo &op, const std::string &dtype) {
  const MortiseSlotInfo &slot = op.operand_count ? op.operands[0] : op.results[0];
  return (slot.dtypes >> dtypeFromName(dtype)) & 1;
}

std::vector<const MortiseOpInfo *> opsLike(const std::string &pattern) {
  std::vector<const MortiseOpInfo *> found;
  for (int32_t op = 1; op < static_cast<int32_t>(opCount); ++op)
    if (fnmatch(pattern.c_str(), mortise_op_info(op)->name, 0) == 0)
      found.push_back(mortise_op_info(op));
  return found;
}

} // namespace

Claims weighClaims(const runtime::Manifest &manifest, const std::vector<ClaimedCase> &cases, const std::string &ops) {
  Claims claims;
  std::map<std::string, uint32_t> claimed; // by pair: the largest rank
  std::map<std::string, std::vector<const ClaimedCase *>> byPair;
  for (const ClaimedCase &each : cases)
    byPair[pairText(each.op, each.dtype)].push_back(&each);
  for (const auto &[pair, list] : byPair)
    claims.shown += std::ranges::any_of(list, &ClaimedCase::isRight);
  for (const runtime::ManifestClaim &claim : manifest.claims) {
    for (const std::string &pattern : claim.ops) {
      const std::vector<const MortiseOpInfo *> found = opsLike(pattern);
      if (found.empty() && pattern.starts_with("mortise."))
        claims.unknown.push_back("'" + pattern + "', which is no op of opset " + std::to_string(MORTISE_OPSET));
      if (found.empty() && !pattern.starts_with("mortise.") && isChosen(pattern, ops))
        claims.untried.push_back(pattern + " (an op of the vendor's own)");
      for (const MortiseOpInfo *op : found)
        for (const std::string &dtype : claim.dtypes)
          if (allows(*op, dtype) && isChosen(op->name, ops)) {
            uint32_t &rank = claimed[pairText(op->name, dtype)];
            rank = std::max(rank, claim.maxRank);
          }
    }
  }
  std::map<std::string, std::string> untried; // element types, by op
  for (const auto &[pair, rank] : claimed) {
    std::vector<const ClaimedCase *> fits;
    std::ranges::copy_if(byPair[pair], std::back_inserter(fits),
                         [&](const ClaimedCase *each) { return each->rank <= static_cast<int64_t>(rank); });
    const auto refused = std::ranges::find_if(fits, [](const ClaimedCase *each) { return each->isRefused; });
    if (fits.empty())
      untried[pair.substr(0, pair.find(' '))] +=
          (untried[pair.substr(0, pair.find(' '))].empty() ? "" : " ") + pair.substr(pair.rfind(' ') + 1);
    else if (refused != fits.end() && std::ranges::none_of(fits, [](const ClaimedCase *each) { return each->isRight; }))
      claims.refused.push_back(pair + ": " + (*refused)->why);
  }
  for (const auto &[op, dtypes] : untried)
    claims.untried.push_back(op + " in " + dtypes);
  return claims;
}

} // namespace mortise::tool
