// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the inputs of cases hold.
#include "draft.hpp"

#include <mortise/reference/formats.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace mortise::conformance {
namespace {

// Which of the classes the next number has.
Values drawn(uint32_t classes, std::mt19937_64 &random) {
  for (uint64_t skipped = std::has_single_bit(classes) ? 0 : random() % std::popcount(classes); skipped > 0; --skipped)
    classes &= classes - 1;
  return static_cast<Values>(std::countr_zero(classes));
}

class Floats {
public:
  Floats(int32_t dtype, Combines combines, std::mt19937_64 &random)
      : info(*mortise_dtype_info(dtype)), combines(combines), random(random) {}

  double next(Values values, size_t i) {
    switch (values) {
    case Values::Infinity:
      return random() % 6 ? usual() : sign() * INFINITY;
    case Values::Zeros:
      return random() % 2 ? sign() * 0.0 : usual();
    case Values::Subnormal:
      return random() % 4 ? sign() * smallest() * static_cast<double>(random() % (uint64_t(2) << info.mantissa_bits))
                          : usual();
    case Values::Extreme:
      return extreme();
    case Values::Ties:
      return tie();
    case Values::Cancelling:
      return cancelling(i);
    case Values::Offset:
      return offset();
    default:
      return usual();
    }
  }
  double usual() {
    if (combines == Combines::Products)
      return sign() * std::exp2(unit(random) - 0.5);
    if (combines == Combines::Sums || random() % 2)
      return normal(random);
    // Every binade that moderate results have.
    const int range = info.exponent_bits < 6 ? 6 : 24;
    return sign() *
           std::ldexp(1 + unit(random), static_cast<int>(random() % (2 * static_cast<unsigned>(range))) - range);
  }

private:
  double sign() { return random() % 2 ? 1 : -1; }
  int lowest() const { return 2 - (1 << (info.exponent_bits - 1)); } // exponent of the smallest normal number
  double smallest() const { return std::ldexp(1.0, lowest() - static_cast<int>(info.mantissa_bits)); }

  double extreme() {
    // A type as wide as its accumulator may overflow inside, in an order of the device's own: what the op adds stays
    // below that.
    const double most =
        combines == Combines::Sums && info.exponent_bits >= 8 ? std::sqrt(info.max_finite) / 4096 : info.max_finite;
    switch (random() % 6) {
    case 0:
      return sign() * most;
    case 1:
      return sign() * most * unit(random);
    case 2:
      return sign() * std::ldexp(1.0, lowest());
    case 3:
      return sign() * std::ldexp(1.0, lowest()) * (1 + unit(random));
    case 4:
      return sign();
    default:
      return normal(random);
    }
  }

  // Halves, and numbers halfway between two neighbours of a type with fewer bits.
  double tie() {
    if (random() % 2)
      return sign() * (static_cast<double>(random() % 16) + 0.5);
    constexpr int narrower[] = {24, 11, 8, 4, 3};
    const int bits = std::min<int>(narrower[random() % 5], static_cast<int>(info.mantissa_bits));
    const double last = std::ldexp(1.0, -bits);
    return sign() * (1 + static_cast<double>(random() % 8) * 2 * last + last) *
           std::ldexp(1.0, static_cast<int>(random() % 5) - 2);
  }

  // Terms of very different sizes, of which neighbours take each other away but for their last bits.
  double cancelling(size_t i) {
    if (i % 2) {
      const double less = kept * (1 - std::ldexp(unit(random), -static_cast<int>(info.mantissa_bits) / 2));
      return -less;
    }
    const int range = info.exponent_bits < 6 ? 5 : 10;
    kept = sign() * std::ldexp(1 + unit(random), static_cast<int>(random() % static_cast<unsigned>(range)));
    return kept;
  }

  // All about one number, from which they differ in the lower half of their bits.
  double offset() {
    if (common == 0)
      common = sign() * std::ldexp(1 + unit(random), static_cast<int>(random() % (info.exponent_bits < 6 ? 4 : 10)));
    return common * (1 + std::ldexp(normal(random), -static_cast<int>(info.mantissa_bits) / 2));
  }

  const MortiseDTypeInfo &info;
  const Combines combines;
  std::mt19937_64 &random;
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> unit;
  double kept = 0, common = 0;
};

// A NaN with a sign and a payload of its own, for what is moved has to keep both. Quiet.
template <typename Format> typename Format::Storage nan(const MortiseDTypeInfo &info, std::mt19937_64 &random) {
  const uint64_t sign = random() % 2 ? uint64_t(1) << (info.exponent_bits + info.mantissa_bits) : 0;
  const uint64_t fraction = (uint64_t(1) << info.mantissa_bits) - 1, quiet = (fraction + 1) / 2;
  const uint64_t ones = ((uint64_t(1) << info.exponent_bits) - 1) << info.mantissa_bits;
  const bool one = info.max_finite == 448; // f8E4M3FN has one NaN alone
  const uint64_t bits = sign | ones | (one ? fraction : quiet | (random() & fraction));
  typename Format::Storage stored;
  static_assert(sizeof stored <= sizeof bits);
  std::memcpy(&stored, &bits, sizeof stored); // little endian
  return stored;
}

// A tensor of a narrow type that has room for every number there is holds each, in an order by seed; NaNs are quiet.
// Answers whether that is so.
template <typename Format>
bool fillAll(int32_t dtype, size_t count, std::mt19937_64 &random, typename Format::Storage *at) {
  using Storage = typename Format::Storage;
  if constexpr (sizeof(Storage) > 2) {
    return false;
  } else {
    constexpr size_t all = size_t(1) << 8 * sizeof(Storage);
    if (count < all)
      return false;
    const size_t first = random(), step = random() | 1; // odd, so that it meets all
    for (size_t i = 0; i < count; ++i) {
      const auto bits = static_cast<uint16_t>(first + i * step);
      std::memcpy(at + i, &bits, sizeof(Storage)); // little endian
      if (std::isnan(Format::load(at[i])))
        at[i] = nan<Format>(*mortise_dtype_info(dtype), random);
    }
    return true;
  }
}

template <typename Format>
void fillFloats(const MortiseType &type, const Fill &fill, uint32_t classes, Combines combines, std::mt19937_64 &random,
                typename Format::Storage *at) {
  const MortiseDTypeInfo &info = *mortise_dtype_info(type.dtype);
  const auto count = static_cast<size_t>(elementCount(type));
  std::uniform_real_distribution<double> unit;
  Floats numbers(type.dtype, combines, random);
  // Many NaNs are in every lane of what is computed side by side, few in one of them.
  const uint64_t between = random() % 2 ? 8 : 64;
  for (size_t i = 0; i < count; ++i) {
    const Values values = drawn(classes, random);
    double value = 0;
    if (fill.kind == Fill::Between)
      value = static_cast<double>(fill.low + static_cast<int64_t>(random() % uint64_t(fill.high - fill.low + 1)));
    else if (fill.kind == Fill::Unit)
      value = unit(random);
    else if (fill.kind == Fill::Positive)
      value = 0.25 + unit(random);
    else if (fill.kind == Fill::Plain)
      value = numbers.usual();
    else
      value = fill.other * numbers.next(values, i);
    at[i] = Format::store(value);
    if (fill.kind == Fill::Numbers && values == Values::Nan && random() % between == 0)
      at[i] = nan<Format>(info, random);
  }
  // What is last or alone is hit as well.
  if (count && fill.kind == Fill::Numbers && classes == 1U << static_cast<uint32_t>(Values::Nan))
    at[random() % 2 ? count - 1 : random() % count] = nan<Format>(info, random);
}

// Halfway between two neighbours of a float type, or one beside that: what is rounded twice goes the wrong way there.
// `rounds`: that type's dtype, or 0 for one by chance.
int64_t besideTie(int64_t lowest, int64_t highest, int32_t rounds, std::mt19937_64 &random) {
  constexpr int mantissas[] = {52, 23, 10, 7, 3, 2};
  const int widest = std::bit_width(static_cast<uint64_t>(highest)) - 1;
  int bits =
      rounds ? static_cast<int>(mortise_dtype_info(rounds)->mantissa_bits) : mantissas[random() % std::size(mantissas)];
  while (bits + 1 > widest)
    bits = mantissas[random() % std::size(mantissas)];
  // Half of them as large as the type has them, beyond what f64 holds.
  const int range = random() % 2 ? widest - bits : std::min(widest - bits, 8);
  const int exponent = widest - static_cast<int>(random() % static_cast<unsigned>(range));
  const int64_t last = int64_t(1) << (exponent - bits), steps = static_cast<int64_t>(random() % 4);
  const int64_t number = (int64_t(1) << exponent) + std::min(steps, (int64_t(1) << bits) - 1) * last + last / 2 +
                         int64_t(random() % 3) - 1;
  return lowest < 0 && random() % 2 ? -number : number;
}

int64_t moderate(int64_t lowest, int64_t highest, std::mt19937_64 &random) {
  return std::clamp<int64_t>(static_cast<int64_t>(random() % 17) - 8, lowest, highest);
}

int64_t integer(Values values, int64_t lowest, int64_t highest, int32_t rounds, std::mt19937_64 &random) {
  if (values != Values::Zeros && highest > 256 && random() % (rounds ? 2 : 4) == 0)
    return besideTie(lowest, highest, rounds, random);
  switch (values) {
  case Values::Zeros:
    return random() % 3 ? 0 : 1;
  case Values::Extreme: {
    const int64_t all[] = {lowest, highest, lowest + 1, highest - 1, 0, 1, lowest < 0 ? -1 : 2};
    return all[random() % 7];
  }
  case Values::Random:
    return static_cast<int64_t>(random()); // the low bits are kept
  default:
    return moderate(lowest, highest, random);
  }
}

template <typename Format>
void fillIntegers(size_t count, const Fill &fill, uint32_t classes, Combines combines, std::mt19937_64 &random,
                  typename Format::Storage *at) {
  for (size_t i = 0; i < count; ++i) {
    const Values values = drawn(classes, random);
    int64_t value;
    if (fill.kind == Fill::Between)
      value = fill.low + static_cast<int64_t>(random() % uint64_t(fill.high - fill.low + 1));
    else if (fill.kind == Fill::Steps)
      value = fill.low + (fill.high - fill.low) * static_cast<int64_t>(i) / std::max<int64_t>(int64_t(count) - 1, 1);
    else if (fill.kind == Fill::Plain)
      value = moderate(Format::lowest, Format::highest, random);
    else
      value = integer(values, Format::lowest, Format::highest, fill.rounds, random);
    // Some even factors more and a product is 0 in all its bits, whatever becomes of one factor.
    if (fill.kind == Fill::Numbers && combines == Combines::Products && values != Values::Zeros)
      value |= 1;
    at[i] = Format::store(value);
  }
}

template <typename Format> void repeat(size_t count, std::mt19937_64 &random, typename Format::Storage *at) {
  const auto less = [](const auto &a, const auto &b) { return Format::load(a) < Format::load(b); }; // no NaN is
  if (count == 0 || random() % 2)
    return;
  const auto least = *std::min_element(at, at + count, less), greatest = *std::max_element(at, at + count, less);
  for (size_t i = 0; i < count; ++i)
    if (const uint64_t turn = random() % 8; turn < 2)
      at[i] = turn ? least : greatest;
}

// Two to a byte, the low half first.
std::vector<std::byte> packed(const std::vector<int8_t> &from) {
  std::vector<std::byte> bytes((from.size() + 1) / 2);
  for (size_t i = 0; i < from.size(); ++i)
    bytes[i / 2] |= static_cast<std::byte>((from[i] & 15) << (i % 2 ? 4 : 0));
  return bytes;
}

// Each line along the last dimension, so that the numbers are never below their left neighbours.
template <typename Format> void ascend(const MortiseType &type, typename Format::Storage *at) {
  const int64_t length = type.rank ? type.dims[type.rank - 1] : 1;
  const auto less = [](const auto &a, const auto &b) {
    const auto x = Format::load(a), y = Format::load(b);
    if constexpr (Format::isFloat)
      return std::isnan(y) ? !std::isnan(x) : x < y; // a NaN is above all numbers
    else
      return x < y;
  };
  for (int64_t begin = 0; length > 0 && begin < elementCount(type); begin += length)
    std::sort(at + begin, at + begin + length, less);
}

} // namespace

std::vector<std::byte> filled(const MortiseType &type, const Fill &fill, uint32_t classes, Combines combines,
                              std::mt19937_64 &random) {
  const auto count = static_cast<size_t>(elementCount(type));
  if (type.dtype == MORTISE_I4) {
    std::vector<int8_t> unpacked(count);
    fillIntegers<reference::I4>(count, fill, classes, combines, random, unpacked.data());
    if (fill.repeats)
      repeat<reference::I4>(count, random, unpacked.data());
    if (fill.kind == Fill::Ascending)
      ascend<reference::I4>(type, unpacked.data());
    return packed(unpacked);
  }
  std::vector<std::byte> bytes(byteSize(type));
  reference::visitElement(type.dtype, [&](auto format) {
    using Format = decltype(format);
    auto *at = reinterpret_cast<typename Format::Storage *>(bytes.data());
    if constexpr (Format::isFloat) {
      const bool mayBeAll = fill.kind == Fill::Numbers && classes == 1U << static_cast<uint32_t>(Values::Nan) &&
                            combines == Combines::Nothing;
      if (!mayBeAll || !fillAll<Format>(type.dtype, count, random, at))
        fillFloats<Format>(type, fill.kind == Fill::Ascending ? Fill{} : fill, classes, combines, random, at);
    } else {
      fillIntegers<Format>(count, fill.kind == Fill::Ascending ? Fill{} : fill, classes, combines, random, at);
    }
    if (fill.repeats)
      repeat<Format>(count, random, at);
    if (fill.kind == Fill::Ascending)
      ascend<Format>(type, at);
  });
  return bytes;
}

} // namespace mortise::conformance
