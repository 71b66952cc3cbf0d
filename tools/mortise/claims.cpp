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

struct Claimed {
  std::string op;
  const MortiseOpInfo *info = nullptr; // NULL: an op of the plugin's own
  // Of the first operand, or of the first result where there is none, as cases have it.
  bool allows(const std::string &dtype) const {
    if (!info)
      return true;
    const MortiseSlotInfo &slot = info->operand_count ? info->operands[0] : info->results[0];
    return (slot.dtypes >> dtypeFromName(dtype)) & 1;
  }
};

// The language's, and those that the plugin declares.
std::vector<Claimed> opsLike(const std::string &pattern, const runtime::Manifest &manifest) {
  std::vector<Claimed> found;
  const auto isLike = [&](const std::string &op) { return fnmatch(pattern.c_str(), op.c_str(), 0) == 0; };
  for (int32_t op = 1; op < static_cast<int32_t>(opCount); ++op)
    if (const MortiseOpInfo *info = mortise_op_info(op); isLike(info->name))
      found.push_back({info->name, info});
  for (const std::string &op : manifest.ops)
    if (isLike(op))
      found.push_back({op});
  return found;
}

} // namespace

std::vector<std::string> unknownClaims(const runtime::Manifest &manifest) {
  std::vector<std::string> unknown;
  for (const runtime::ManifestClaim &claim : manifest.claims)
    for (const std::string &pattern : claim.ops) {
      if (!opsLike(pattern, manifest).empty())
        continue;
      if (!pattern.starts_with("mortise."))
        unknown.push_back(pattern +
                          ", which is no op of the language, and which the plugin does not declare; declare it in its "
                          "table, and list it in the manifest's ops");
      else if (manifest.opset <= MORTISE_OPSET) // a newer one may have it
        unknown.push_back("'" + pattern + "', which is no op of opset " + std::to_string(MORTISE_OPSET));
    }
  return unknown;
}

Claims weighClaims(const runtime::Manifest &manifest, const std::vector<ClaimedCase> &cases, const std::string &ops) {
  Claims claims;
  std::map<std::string, uint32_t> claimed; // by pair: the largest rank
  std::map<std::string, std::vector<const ClaimedCase *>> byPair;
  for (const ClaimedCase &each : cases)
    byPair[pairText(each.op, each.dtype)].push_back(&each);
  for (const auto &[pair, list] : byPair)
    claims.shown += std::ranges::any_of(list, &ClaimedCase::isRight);
  for (const runtime::ManifestClaim &claim : manifest.claims)
    for (const std::string &pattern : claim.ops)
      for (const Claimed &each : opsLike(pattern, manifest))
        for (const std::string &dtype : claim.dtypes)
          if (each.allows(dtype) && isChosen(each.op, ops)) {
            uint32_t &rank = claimed[pairText(each.op, dtype)];
            rank = std::max(rank, claim.maxRank);
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
