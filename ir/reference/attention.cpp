// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernels.hpp"

#include <algorithm>
#include <atomic>
#include <new>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

const Number unseen = -std::numeric_limits<Number>::infinity();

// Checks q, k and v: rank, dtype and head counts. Heads are dimension 1.
Refusal checkHeads(const Shapes &shapes, int32_t rank) {
  for (size_t i = 0; i < 3; ++i)
    if (shapes.rank(i) != rank || shapes.dtype(i) != shapes.dtype(0))
      return shapes.fail("expected q, k and v of rank " + std::to_string(rank) + " and one dtype, found " +
                             typeString(shapes.type(i)),
                         shapes.rank(i) != rank ? MORTISE_REASON_RANK : MORTISE_REASON_DTYPE);
  int64_t queries = shapes.dims(0)[1], keys = shapes.dims(1)[1];
  if (keys == 0 ? queries != 0 : queries % keys != 0) // a batch that takes the place of heads may be empty
    return shapes.fail("expected the query heads to be a multiple of the key heads, found " + std::to_string(queries) +
                       " and " + std::to_string(keys));
  return {};
}

// Of q, k, v and the mask, which is this operand.
Refusal checkOperands(const Shapes &shapes, size_t mask) {
  if (Refusal refusal = checkHeads(shapes, 4))
    return refusal;
  std::span<const int64_t> q = shapes.dims(0), k = shapes.dims(1), v = shapes.dims(2);
  Shape keys{q[0], k[1], k[2], q[3]}, values{q[0], k[1], k[2], v[3]}, scores{q[0], q[1], q[2], k[2]};
  if (Refusal refusal =
          firstOf(shapes.expectOperand(1, shapes.dtype(0), keys), shapes.expectOperand(2, shapes.dtype(0), values)))
    return refusal;
  if (!shapes.has(mask))
    return {};
  if (shapes.dtype(mask) != MORTISE_I1 && shapes.dtype(mask) != shapes.dtype(0))
    return shapes.fail("expected a mask of i1 or of q's dtype, found " + typeString(shapes.type(mask)),
                       MORTISE_REASON_DTYPE);
  bool fits = shapes.rank(mask) == 4;
  for (size_t d = 0; fits && d < 4; ++d)
    fits = shapes.dims(mask)[d] == 1 || shapes.dims(mask)[d] == scores[d];
  return fits ? Refusal()
              : shapes.fail("the mask " + typeString(shapes.type(mask)) + " does not broadcast to the scores");
}

Shape attendedShape(const Shapes &shapes) {
  std::span<const int64_t> q = shapes.dims(0);
  return {q[0], q[1], q[2], shapes.dims(2)[3]};
}
// The dtype of log_sums.
int32_t accumulatorOf(int32_t dtype) { return dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32; }

Refusal check(const Shapes &shapes) {
  if (Refusal refusal = checkOperands(shapes, 3))
    return refusal;
  return shapes.expect(shapes.dtype(0), attendedShape(shapes));
}

Refusal checkForward(const Shapes &shapes) {
  if (Refusal refusal = check(shapes))
    return refusal;
  return shapes.expectResult(1, accumulatorOf(shapes.dtype(0)), shapes.dims(0).first(3));
}

Refusal checkGradient(const Shapes &shapes) {
  if (Refusal refusal = checkOperands(shapes, 6))
    return refusal;
  const int32_t dtype = shapes.dtype(0);
  return firstOf(shapes.expectOperand(3, dtype, attendedShape(shapes)),
                 shapes.expectOperand(4, accumulatorOf(dtype), shapes.dims(0).first(3)),
                 shapes.expectOperand(5, dtype, attendedShape(shapes)), shapes.expect(dtype, shapes.dims(0)),
                 shapes.expectResult(1, dtype, shapes.dims(1)), shapes.expectResult(2, dtype, shapes.dims(2)));
}

struct Heads {
  int64_t H, G, Q, K, D, E;
  explicit Heads(const Call &call) {
    std::span<const int64_t> q = call.operand(0).dims();
    H = q[1], Q = q[2], D = q[3];
    G = call.operand(1).dims()[1], K = call.operand(1).dims()[2], E = call.operand(2).dims()[3];
  }
};

std::vector<int64_t> maskStrides(Tensor mask) {
  Shape strides(4);
  if (mask) {
    strides = denseStrides(mask.dims());
    for (size_t d = 0; d < 4; ++d)
      strides[d] = mask.dims()[d] == 1 ? 0 : strides[d];
  }
  return strides;
}

// The mask's row for one query, applied to the score of key j. The mask may be absent.
template <typename T> struct Mask {
  Mask(const Call &call, Tensor tensor, std::span<const int64_t> strides, int64_t b, int64_t h, int64_t i)
      : tensor(tensor), added(tensor && tensor.dtype() != MORTISE_I1),
        first(b * strides[0] + h * strides[1] + i * strides[2]), stride(strides[3]),
        last(call.integer("causal") ? i : std::numeric_limits<int64_t>::max()) {}

  Number number(int64_t j) const { return j > last ? unseen : T::load(tensor.as<T>()[first + j * stride]); }
  bool hides(int64_t j) const { return !added && (j > last || (tensor && !tensor.as<I1>()[first + j * stride])); }
  bool lets(int64_t j) const { return added ? number(j) != unseen : !hides(j); }

  Number score(int64_t j, Number scale, const typename T::Storage *query, const typename T::Storage *key,
               int64_t depth) const {
    if (hides(j))
      return unseen;
    Number sum = 0;
    for (int64_t d = 0; d < depth; ++d)
      sum += T::load(query[d]) * T::load(key[d]);
    const Number scaled = inRange<T>(scale * inRange<T>(sum));
    return added ? inRange<T>(scaled + number(j)) : scaled;
  }

  Tensor tensor;
  bool added;
  int64_t first, stride, last;
};

struct Rows {
  int64_t stride, length;
};
// Computes softmax(scores) times the values; all weights are 0 when no key is seen (`sees` false). `largest` is the
// largest score. Zero weights are multiplied too, so 0 * infinity gives NaN. `sums` has room for a row. Returns
// log(sum(exp(scores))).
template <typename T>
Number weigh(std::span<Number> scores, Number largest, bool sees, const typename T::Storage *values, Rows rows,
             Number *sums, typename T::Storage *to) {
  Number total = 0;
  for (Number &score : scores) {
    score = inRange<T>(exp(inRange<T>(score - largest)));
    total += score;
  }
  std::fill_n(sums, rows.length, 0.0);
  for (const Number &score : scores) {
    Number weight = sees ? inRange<T>(score / total) : 0;
    for (int64_t e = 0; e < rows.length; ++e)
      sums[e] += weight * T::load(values[e]);
    values += rows.stride;
  }
  for (int64_t e = 0; e < rows.length; ++e)
    to[e] = T::store(sums[e]);
  return largest == unseen ? Number(0) : inRange<T>(largest + log(total));
}

// Computes one query. `scores` has room for K numbers, `sums` for E. Returns the logarithm of its sum.
template <typename T>
Number attend(const Call &call, const Heads &n, std::span<const int64_t> maskStrides, int64_t row, Number *scores,
              Number *sums) {
  int64_t i = row % n.Q, h = row / n.Q % n.H, b = row / n.Q / n.H, group = b * n.G + h / (n.H / n.G);
  const auto *query = call.operand(0).as<T>() + row * n.D;
  const auto *keys = call.operand(1).as<T>() + group * n.K * n.D, *values = call.operand(2).as<T>() + group * n.K * n.E;
  Mask<T> mask(call, call.operand(3), maskStrides, b, h, i);
  Number scale = findAttribute(call.node, "scale")->f64, largest = unseen;
  bool sees = !mask.tensor;
  for (int64_t j = 0; j < n.K; ++j) {
    scores[j] = mask.score(j, scale, query, keys + j * n.D, n.D);
    largest = maximum(largest, scores[j]);
    sees = sees || mask.lets(j);
  }
  return weigh<T>({scores, static_cast<size_t>(n.K)}, largest, sees, values, {n.E, n.E}, sums,
                  call.result.as<T>() + row * n.E);
}

// Of attention_forward, log_sums, too.
void run(const Call &call) {
  Heads n(call);
  const Shape strides = maskStrides(call.operand(3));
  std::atomic<bool> starved = false;
  visitFloat(call.operand(0).dtype(), [&](auto type) {
    using T = decltype(type);
    using Sums = std::conditional_t<T::dtype == MORTISE_F64, F64, F32>;
    call.parallel(call.operand(0).dims()[0] * n.H * n.Q, 8, [&](int64_t begin, int64_t end) {
      std::unique_ptr<Number[]> scratch(new (std::nothrow) Number[static_cast<size_t>(n.K + n.E)]);
      starved = starved || !scratch;
      for (int64_t row = begin; scratch && row < end; ++row) {
        const Number sum = attend<T>(call, n, strides, row, scratch.get(), scratch.get() + n.K);
        if (call.results.size() > 1)
          call.results[1].as<Sums>()[row] = Sums::store(sum);
      }
    });
  });
  if (starved)
    throw std::bad_alloc();
}

// Computes what the queries of the heads that share a key head add up to. `sums` has room for K * (D + E) + D numbers.
template <typename T>
void attendGradient(const Call &call, const Heads &n, std::span<const int64_t> strides, int64_t b, int64_t g,
                    Number *sums) {
  using Sums = std::conditional_t<T::dtype == MORTISE_F64, F64, F32>;
  const int64_t group = b * n.G + g;
  const auto *keys = call.operand(1).as<T>() + group * n.K * n.D, *values = call.operand(2).as<T>() + group * n.K * n.E;
  const auto keyCount = static_cast<size_t>(n.K * n.D), valueCount = static_cast<size_t>(n.K * n.E);
  Number *const ofKeys = sums, *const ofValues = ofKeys + keyCount, *const ofQuery = ofValues + valueCount;
  std::fill(ofKeys, ofQuery, Number(0));
  const Number scale = findAttribute(call.node, "scale")->f64;
  for (int64_t row = 0; row < n.H / n.G * n.Q; ++row) {
    const int64_t h = g * (n.H / n.G) + row / n.Q, i = row % n.Q, at = (b * n.H + h) * n.Q + i;
    const Mask<T> mask(call, call.operand(6), strides, b, h, i);
    const auto *query = call.operand(0).as<T>() + at * n.D, *result = call.operand(3).as<T>() + at * n.E,
               *gradient = call.operand(5).as<T>() + at * n.E;
    const Number logarithm = Sums::load(call.operand(4).as<Sums>()[at]);
    Number share = 0;
    for (int64_t e = 0; e < n.E; ++e)
      share += inRange<T>(T::load(gradient[e]) * T::load(result[e]));
    share = inRange<T>(share);
    std::fill_n(ofQuery, n.D, Number(0));
    for (int64_t j = 0; j < n.K; ++j) {
      const Number weight = inRange<T>(exp(inRange<T>(mask.score(j, scale, query, keys + j * n.D, n.D) - logarithm)));
      Number change = 0;
      for (int64_t e = 0; e < n.E; ++e) {
        change += T::load(gradient[e]) * T::load(values[j * n.E + e]);
        ofValues[j * n.E + e] += weight * T::load(gradient[e]);
      }
      change = inRange<T>(inRange<T>(weight * inRange<T>(inRange<T>(change) - share)) * scale);
      for (int64_t d = 0; d < n.D; ++d) {
        ofQuery[d] += change * T::load(keys[j * n.D + d]);
        ofKeys[j * n.D + d] += change * T::load(query[d]);
      }
    }
    for (int64_t d = 0; d < n.D; ++d)
      call.results[0].as<T>()[at * n.D + d] = T::store(ofQuery[d]);
  }
  auto *keysTo = call.results[1].as<T>() + group * n.K * n.D, *valuesTo = call.results[2].as<T>() + group * n.K * n.E;
  for (size_t d = 0; d < keyCount; ++d)
    keysTo[d] = T::store(ofKeys[d]);
  for (size_t e = 0; e < valueCount; ++e)
    valuesTo[e] = T::store(ofValues[e]); // NOLINT(clang-analyzer-security.ArrayBound): `sums` has the room
}

void runGradient(const Call &call) {
  const Heads n(call);
  const Shape strides = maskStrides(call.operand(6));
  std::atomic<bool> starved = false;
  visitFloat(call.operand(0).dtype(), [&](auto type) {
    call.parallel(call.operand(0).dims()[0] * n.G, 1, [&](int64_t begin, int64_t end) {
      const auto count = static_cast<size_t>(n.K * (n.D + n.E) + n.D);
      std::unique_ptr<Number[]> sums(new (std::nothrow) Number[count]);
      starved = starved || !sums;
      for (int64_t group = begin; sums && group < end; ++group)
        attendGradient<decltype(type)>(call, n, strides, group / n.G, group % n.G, sums.get());
    });
  });
  if (starved)
    throw std::bad_alloc();
}

Refusal checkRagged(const Shapes &shapes) {
  if (Refusal refusal = checkHeads(shapes, 3))
    return refusal;
  std::span<const int64_t> q = shapes.dims(0), k = shapes.dims(1), v = shapes.dims(2);
  if (shapes.rank(3) != 1 || shapes.dims(3)[0] < 1)
    return shapes.fail("expected offsets of rank 1, at least one, found " + typeString(shapes.type(3)));
  return firstOf(shapes.expectOperand(1, shapes.dtype(0), Shape{k[0], k[1], q[2]}),
                 shapes.expectOperand(2, shapes.dtype(0), Shape{k[0], k[1], v[2]}),
                 shapes.expectOperand(3, MORTISE_I64, shapes.dims(3)),
                 shapes.expectOperand(4, MORTISE_I64, shapes.dims(3)),
                 shapes.expect(shapes.dtype(0), Shape{q[0], q[1], v[2]}));
}

// The position of a row within packed sequences.
struct Place {
  int64_t sequence = -1; // -1: the row is padding
  uint64_t left = 0;     // rows from this one to the end of its sequence, both included
  Place(const Tensor &offsets, int64_t row) {
    std::span<const int64_t> all(offsets.as<I64>(), static_cast<size_t>(offsets.count()));
    int64_t begun = std::ranges::count_if(all, [&](int64_t offset) { return offset <= row; });
    int64_t end = all[static_cast<size_t>(std::min(begun, offsets.count() - 1))];
    if (begun >= 1 && row < end) {
      sequence = begun - 1;
      left = static_cast<uint64_t>(end) - static_cast<uint64_t>(row);
    }
  }
};

// Computes one query of one head. `scores` has room for all keys, `sums` for E numbers.
template <typename T>
void attendRagged(const Call &call, int64_t row, const std::vector<Place> &keyPlaces, Number *scores, Number *sums) {
  std::span<const int64_t> q = call.operand(0).dims(), v = call.operand(2).dims();
  int64_t H = q[1], D = q[2], S = v[0], G = v[1], E = v[2], h = row % H, group = h / (H / G);
  Place place(call.operand(3), row / H);
  bool causal = call.integer("causal") != 0, any = false;
  Number scale = findAttribute(call.node, "scale")->f64, largest = unseen;
  const auto *query = call.operand(0).as<T>() + row * D;
  for (int64_t j = 0; j < S; ++j) {
    const Place &key = keyPlaces[static_cast<size_t>(j)];
    scores[j] = unseen;
    if (place.sequence < 0 || key.sequence != place.sequence || (causal && key.left < place.left))
      continue;
    Number score = 0;
    for (int64_t d = 0; d < D; ++d)
      score += T::load(query[d]) * T::load(call.operand(1).as<T>()[(j * G + group) * D + d]);
    scores[j] = inRange<T>(scale * inRange<T>(score));
    largest = maximum(largest, scores[j]);
    any = true;
  }
  weigh<T>({scores, static_cast<size_t>(S)}, largest, any, call.operand(2).as<T>() + group * E, {G * E, E}, sums,
           call.result.as<T>() + row * E);
}

void runRagged(const Call &call) {
  int64_t S = call.operand(2).dims()[0], E = call.operand(2).dims()[2];
  std::vector<Place> keyPlaces;
  for (int64_t j = 0; j < S; ++j)
    keyPlaces.emplace_back(call.operand(4), j);
  std::vector<Number> scores(static_cast<size_t>(S)), sums(static_cast<size_t>(E));
  visitFloat(call.result.dtype(), [&](auto type) {
    for (int64_t row = 0; row < call.operand(0).dims()[0] * call.operand(0).dims()[1]; ++row)
      attendRagged<decltype(type)>(call, row, keyPlaces, scores.data(), sums.data());
  });
}

Refusal checkRope(const Shapes &shapes) {
  std::span<const int64_t> x = shapes.dims(0);
  if (x.empty() || x.back() % 2)
    return shapes.fail("expected x with an even last extent, found " + typeString(shapes.type(0)));
  for (size_t i : {1, 2}) {
    std::span<const int64_t> angle = shapes.dims(i);
    bool fits = shapes.dtype(i) == shapes.dtype(0) && angle.size() == x.size() && angle.back() == x.back();
    for (size_t d = 0; fits && d < x.size(); ++d)
      fits = angle[d] == 1 || angle[d] == x[d];
    if (!fits)
      return shapes.fail("expected cos and sin that broadcast to " + typeString(shapes.type(0)) + ", found " +
                         typeString(shapes.type(i)));
  }
  return shapes.expect(shapes.dtype(0), x);
}
void runRope(const Call &call) {
  std::span<const int64_t> dims = call.result.dims();
  int64_t D = dims.back(), half = D / 2;
  bool interleaved = call.integer("interleaved");
  auto angles = [&](size_t operand) { // for each element of x, the offset of its angle
    Shape strides = denseStrides(call.operand(operand).dims());
    for (size_t d = 0; d < strides.size(); ++d)
      strides[d] = call.operand(operand).dims()[d] == 1 ? 0 : strides[d];
    return offsets(dims, strides);
  };
  std::vector<int64_t> cosAt = angles(1), sinAt = angles(2);
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto *x = call.operand(0).as<T>(), *cos = call.operand(1).as<T>(), *sin = call.operand(2).as<T>();
    for (int64_t i = 0; i < call.result.count(); ++i) {
      int64_t d = i % D, partner = interleaved ? d ^ 1 : (d < half ? d + half : d - half);
      bool negated = interleaved ? d % 2 == 0 : d < half;
      Number other = T::load(x[i - d + partner]), rotated = negated ? -other : other;
      call.result.as<T>()[i] = T::store(inRange<T>(T::load(x[i]) * T::load(cos[cosAt[size_t(i)]])) +
                                        inRange<T>(rotated * T::load(sin[sinAt[size_t(i)]])));
    }
  });
}

} // namespace

std::span<const OpSpec> attentionOps() {
  static const std::vector<OpSpec> ops = {
      {Op::Attention, check, run},
      {Op::AttentionForward, checkForward, run},
      {Op::AttentionGradient, checkGradient, runGradient},
      {Op::RaggedAttention, checkRagged, runRagged},
      {Op::Rope, checkRope, runRope},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
