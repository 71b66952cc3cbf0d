// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "judge.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/reference/formats.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mortise::conformance {
namespace {

std::string describe(size_t i, double expected, double found, const std::string &most) {
  char line[192];
  snprintf(line, sizeof line, "element %zu: expected %.9g, found %.9g%s", i, expected, found, most.c_str());
  return line;
}

size_t bucketOf(double ulps) {
  return static_cast<size_t>(std::ranges::lower_bound(ulpBounds, ulps) - std::begin(ulpBounds));
}

std::string counted(const std::string &first, size_t wrong, size_t count, const MortiseType &type) {
  return first + "; " + std::to_string(wrong) + " of " + std::to_string(count) + " elements of " + typeString(type) +
         (wrong == 1 ? " is wrong" : " are wrong");
}

std::string compareBytes(const MortiseType &type, std::span<const std::byte> found, std::span<const std::byte> want) {
  const auto count = static_cast<size_t>(elementCount(type));
  const size_t bits = dtypeBits(type.dtype);
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < count; ++i) {
    const auto element = [&](std::span<const std::byte> of) {
      uint64_t value = 0;
      if (bits < 8)
        value = static_cast<uint64_t>(of[i / 2] >> (i % 2 ? 4 : 0)) & 15;
      else
        std::memcpy(&value, of.data() + i * (bits / 8), bits / 8);
      return value;
    };
    const uint64_t a = element(found), b = element(want);
    if (a == b || ++wrong > 1)
      continue;
    char line[128];
    snprintf(line, sizeof line, "element %zu: expected the bits 0x%llx, found 0x%llx", i,
             static_cast<unsigned long long>(b), static_cast<unsigned long long>(a));
    first = line;
  }
  return wrong ? counted(first, wrong, count, type) : "";
}

} // namespace

CaseJudge::CaseJudge(const Case &of) : of(of) {
  for (const std::vector<std::byte> &input : of.inputs)
    inputs.push_back(input.data());
}

Result<void> CaseJudge::measure() {
  if (!exact.empty())
    return {};
  auto made = exactResults(of.plain->view(), inputs);
  if (!made)
    return made.error();
  exact = std::move(*made);
  return {};
}

// How far a result is from the exact one, which is finite. An infinity stands for all numbers beyond the largest; in a
// type without infinities a NaN does.
static double distanceFrom(double exact, double found, const MortiseDTypeInfo &type, double step) {
  if (std::isfinite(found))
    return std::abs(found - exact);
  const bool overflows = std::isinf(found) ? std::signbit(found) == std::signbit(exact) : type.max_finite == 448;
  return overflows ? std::max(0.0, type.max_finite + step - std::abs(exact)) : INFINITY;
}

template <typename Format>
Result<std::string> CaseJudge::compareFloats(size_t output, std::span<const std::byte> found) {
  const MortiseType &type = *of.plain->view().outputs[output]->type;
  const auto *x = reinterpret_cast<const typename Format::Storage *>(found.data());
  const auto *y = reinterpret_cast<const typename Format::Storage *>(of.expected[output].data());
  const auto count = static_cast<size_t>(elementCount(type));
  const Exactness exactness = of.exactness[output];
  const bool bounded = exactness == Exactness::Bounded || exactness == Exactness::Signed;
  const MortiseDTypeInfo &info = *mortise_dtype_info(type.dtype);
  if (bounded)
    if (auto done = measure(); !done)
      return done.error();
  if (bounded && exact[output].values.size() != count)
    return Error{MORTISE_INTERNAL, "output " + std::to_string(output) + " has no error bounds"};
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < count; ++i) {
    const auto a = static_cast<double>(Format::load(x[i])), b = static_cast<double>(Format::load(y[i]));
    const bool zeros = a == 0 && b == 0 && exactness != Exactness::Bounded;
    const bool same = std::isnan(b) ? std::isnan(a) : a == b && (!zeros || std::signbit(a) == std::signbit(b));
    const double ulps = same ? 0 : std::abs(a - b) / ulp(b, type.dtype);
    if (std::isfinite(ulps)) {
      ++distances.histogram[bucketOf(ulps)];
      distances.worst = std::max(distances.worst, ulps);
    }
    double bound = 0, distance = INFINITY;
    const double unit = ulp(std::isfinite(b) ? b : info.max_finite, type.dtype);
    if (bounded && !std::isfinite(exact[output].bounds[i])) // rounding alone makes an intermediate result finite or not
      continue;
    if (bounded && (same || !zeros) && std::isfinite(exact[output].values[i])) {
      bound = exact[output].bounds[i];
      distance = distanceFrom(exact[output].values[i], a, info, ulp(info.max_finite, type.dtype));
      if (const double share = distance / bound; distance <= bound && share > distances.share) {
        distances.share = share;
        // A bound far above the number would be an infinity of its units.
        distances.bound = bound / std::max(unit, ulp(bound, type.dtype));
      }
    }
    if (same || distance <= bound || ++wrong > 1)
      continue;
    char most[96];
    snprintf(most, sizeof most, ", which is %.3g ULP away; at most %.3g", distance / unit, bound / unit);
    first = describe(i, b, a, zeros ? ", which differs in its sign" : std::isfinite(distance) ? most : "");
  }
  return wrong ? counted(first, wrong, count, type) : "";
}

Result<std::string> CaseJudge::compare(size_t output, std::span<const std::byte> found) {
  const MortiseType &type = *of.plain->view().outputs[output]->type;
  if (!isFloat(type.dtype) || of.exactness[output] == Exactness::Bits) {
    std::string text = compareBytes(type, found, of.expected[output]);
    if (text.empty() && isFloat(type.dtype))
      distances.histogram[0] += static_cast<uint64_t>(elementCount(type));
    return text;
  }
  return reference::visitFloat(type.dtype, [&](auto format) { return compareFloats<decltype(format)>(output, found); });
}

} // namespace mortise::conformance
