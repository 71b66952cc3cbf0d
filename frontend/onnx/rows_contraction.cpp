// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products that sum.
#include "rows.hpp"

#include <algorithm>
#include <cctype>

namespace mortise::onnx {
namespace {

Values matmul(Emitter &e, Node &node) { return {e.matmul(node[0], node[1])}; }

Values gemm(Emitter &e, Node &node) {
  const Value a = node.flag("transA", false) ? e.swapLast(node[0]) : node[0];
  const Value b = node.flag("transB", false) ? e.swapLast(node[1]) : node[1];
  const double alpha = node.real("alpha", 1), beta = node.real("beta", 1);
  if (a.rank() != 2 || b.rank() != 2)
    corrupt(node.place() + ": expected matrices, found " + typeText(a) + " and " + typeText(b));
  Value product = e.matmul(a, b);
  if (alpha != 1)
    product = e.scale(product, alpha);
  if (!node.has(2))
    return {product};
  const Value sum = e.add(product, beta == 1 ? node[2] : e.scale(node[2], beta));
  if (sum.dims != product.dims)
    corrupt(node.place() + ": expected a third operand that can be repeated to " + typeText(product) + ", found " +
            typeText(node[2]));
  return {sum};
}

// ---- Einstein's sums

struct Term {
  Value value;
  std::string labels; // a letter for each dimension; '.' and letters of no alphabet stand for those of an ellipsis
};

// Dimensions of an ellipsis are counted from the last one.
char ellipsisLabel(int64_t fromLast) { return static_cast<char>(1 + fromLast); }

std::string labelsOf(std::string text, int64_t ellipsis, const std::string &place) {
  std::erase(text, ' ');
  std::string made;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "...") == 0) {
      for (int64_t k = ellipsis; k-- > 0;)
        made += ellipsisLabel(k);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      made += text[i];
    } else {
      corrupt(place + ": expected letters, '...' and commas, found '" + text + "'");
    }
  }
  return made;
}

bool has(const std::string &labels, char label) { return labels.find(label) != std::string::npos; }

// Sums dimensions that nobody reads any more, and refuses a letter that stands twice.
Term reduced(Emitter &e, Term term, const std::string &needed) {
  Dims axes;
  std::string left;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (term.labels.find(term.labels[i], i + 1) != std::string::npos)
      unsupported("equation", e.place + ": a letter that stands twice in one operand");
    if (has(needed, term.labels[i]))
      left += term.labels[i];
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  return {axes.empty() ? term.value : e.sum(term.value, axes, false), left};
}

Dims positions(const std::string &labels, const std::string &of) {
  Dims made;
  for (const char label : of)
    made.push_back(static_cast<int64_t>(labels.find(label)));
  return made;
}

// An extent of 1 in an ellipsis is repeated to the other operand's.
void align(Emitter &e, Term &to, const Term &with) {
  Dims shape = to.value.dims;
  for (size_t i = 0; i < shape.size(); ++i)
    if (const size_t at = with.labels.find(to.labels[i]); at != std::string::npos && shape[i] == 1)
      shape[i] = with.value.dims[at];
  to.value = e.spread(to.value, shape);
}

Term product(Emitter &e, Term a, Term b, const std::string &needed) {
  a = reduced(e, a, needed + b.labels);
  b = reduced(e, b, needed + a.labels);
  align(e, a, b);
  align(e, b, a);
  std::string batch, contract, rest;
  for (const char label : a.labels)
    (!has(b.labels, label) ? rest : has(needed, label) ? batch : contract) += label;
  for (const char label : b.labels)
    if (!has(a.labels, label))
      rest += label;
  return {e.op("mortise.dot", {a.value, b.value},
               {{"lhs_batch", positions(a.labels, batch)},
                {"rhs_batch", positions(b.labels, batch)},
                {"lhs_contract", positions(a.labels, contract)},
                {"rhs_contract", positions(b.labels, contract)}}),
          batch + rest};
}

Values einsum(Emitter &e, Node &node) {
  const std::string equation = node.text("equation", "");
  const size_t arrow = equation.find("->");
  std::vector<std::string> texts(1); // one of no letters is a scalar's
  for (const char c : equation.substr(0, arrow))
    if (c == ',')
      texts.emplace_back();
    else
      texts.back() += c;
  if (texts.size() != node.inputCount())
    corrupt(node.place() + ": expected an equation of " + std::to_string(node.inputCount()) + " operands, found '" +
            equation + "'");
  std::vector<Term> terms;
  int64_t widest = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto letters =
        std::ranges::count_if(texts[i], [](char c) { return std::isalpha(static_cast<unsigned char>(c)); });
    const int64_t ellipsis = node[i].rank() - letters;
    if (ellipsis < 0 || ellipsis > 16 || (ellipsis > 0 && texts[i].find("...") == std::string::npos))
      corrupt(node.place() + ": expected a letter for each dimension of " + typeText(node[i]) + ", found '" + texts[i] +
              "'");
    widest = std::max(widest, ellipsis);
    terms.push_back({node[i], labelsOf(texts[i], ellipsis, node.place())});
  }
  std::string target;
  if (arrow != std::string::npos) {
    target = labelsOf(equation.substr(arrow + 2), widest, node.place());
  } else { // all letters that stand once, in order
    std::string all;
    for (const Term &term : terms)
      all += term.labels;
    std::string sorted = all;
    std::ranges::sort(sorted);
    for (int64_t k = widest; k-- > 0;)
      target += ellipsisLabel(k);
    for (const char label : sorted)
      if (std::isalpha(static_cast<unsigned char>(label)) && std::ranges::count(all, label) == 1)
        target += label;
  }
  Term sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string needed = target;
    for (size_t k = i + 1; k < terms.size(); ++k)
      needed += terms[k].labels;
    sum = product(e, sum, terms[i], needed);
  }
  sum = reduced(e, sum, target);
  for (const char label : target)
    if (!has(sum.labels, label) || std::ranges::count(target, label) > 1)
      corrupt(node.place() + ": expected each letter of the result once, and in an operand, found '" + equation + "'");
  return {e.transpose(sum.value, positions(sum.labels, target))};
}

constexpr Row table[] = {
    {"Einsum", einsum},
    {"Gemm", gemm},
    {"MatMul", matmul},
};

} // namespace

std::span<const Row> contractionRows() { return table; }

} // namespace mortise::onnx
