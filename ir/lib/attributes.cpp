// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbols, and extents as expressions over them.
#include "infer.hpp"

#include <mlir/IR/DialectImplementation.h>

#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/TypeSwitch.h>

#define GET_ATTRDEF_CLASSES
#include <mortise/ir/attributes.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include <mortise/ir/attributes.cpp.inc>
      >();
}

// ---- SymbolsAttr

LogicalResult SymbolsAttr::verify(function_ref<InFlightDiagnostic()> error, ArrayRef<StringAttr> names,
                                  ArrayRef<int64_t> facts) {
  if (facts.size() != 3 * names.size())
    return error() << "symbols need a minimum, a maximum and a divisor each";
  for (size_t i = 0; i < names.size(); ++i) {
    StringRef name = names[i].getValue();
    if (name.empty() || !(llvm::isAlpha(name[0]) || name[0] == '_') ||
        !llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
      return error() << "symbol name '" << name << "' must be a letter followed by letters, digits and '_'";
    if (llvm::is_contained(names.take_front(i), names[i]))
      return error() << "symbol '" << name << "' is declared twice";
    int64_t min = facts[3 * i], max = facts[3 * i + 1], divisor = facts[3 * i + 2];
    if (min < 0 || max < min || divisor < 1)
      return error() << "symbol '" << name << "' must have 0 <= minimum <= maximum and a step of 1 or more, found "
                     << min << ", " << max << " and " << divisor;
  }
  return success();
}

SmallVector<SymbolRange> SymbolsAttr::getRanges() const {
  SmallVector<SymbolRange> ranges;
  for (ArrayRef<int64_t> facts = getFacts(); !facts.empty(); facts = facts.drop_front(3))
    ranges.push_back({facts[0], facts[1], facts[2]});
  return ranges;
}

void SymbolsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  for (auto [i, name] : llvm::enumerate(getNames())) {
    int64_t max = getFacts()[3 * i + 1], divisor = getFacts()[3 * i + 2];
    printer << (i ? ", " : "") << name.getValue() << " in [" << getFacts()[3 * i] << ", ";
    max == INT64_MAX ? printer << "*" : printer << max;
    printer << "]";
    if (divisor != 1)
      printer << " step " << divisor;
  }
  printer << ">";
}

Attribute SymbolsAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> facts;
  auto symbol = [&]() -> ParseResult {
    StringRef name;
    int64_t min, max = INT64_MAX, divisor = 1;
    if (parser.parseKeyword(&name) || parser.parseKeyword("in") || parser.parseLSquare() || parser.parseInteger(min) ||
        parser.parseComma())
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    if (failed(parser.parseOptionalStar()) && parser.parseInteger(max))
      return failure();
    if (parser.parseRSquare() || (succeeded(parser.parseOptionalKeyword("step")) && parser.parseInteger(divisor)))
      return failure();
    facts.append({min, max, divisor});
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, symbol))
    return {};
  return parser.getChecked<SymbolsAttr>(parser.getContext(), names, facts);
}

// ---- DimsAttr

DimsAttr DimsAttr::get(MLIRContext *context, ArrayRef<int64_t> numbers) {
  return Base::get(context, SymbolsAttr(), numbers, ArrayRef<int64_t>());
}

DimsAttr DimsAttr::get(MLIRContext *context, ArrayRef<Dim> dims, SymbolsAttr symbols) {
  SmallVector<int64_t> numbers, program;
  for (const Dim &dim : dims)
    numbers.push_back(dim.numberOrDynamic());
  if (!llvm::is_contained(numbers, MORTISE_DYNAMIC))
    return get(context, numbers);
  for (const Dim &dim : dims) {
    std::vector<MortiseExprStep> steps = dim.steps();
    program.push_back(static_cast<int64_t>(steps.size()));
    for (const MortiseExprStep &step : steps)
      program.append({step.op, step.value});
  }
  return Base::get(context, symbols, numbers, program);
}

SmallVector<Dim> DimsAttr::getDims() const {
  SmallVector<Dim> dims;
  if (isStatic()) {
    dims.append(getNumbers().begin(), getNumbers().end());
    return dims;
  }
  ArrayRef<int64_t> rest = getProgram();
  while (!rest.empty()) {
    SmallVector<MortiseExprStep> steps;
    for (int64_t i = 0; i < rest[0]; ++i)
      steps.push_back({static_cast<int32_t>(rest[1 + 2 * i]), 0, rest[2 + 2 * i]});
    rest = rest.drop_front(1 + 2 * rest[0]);
    Result<Dim> dim = Dim::from(std::span<const MortiseExprStep>(steps), getSymbols().getNames().size());
    dims.push_back(dim ? *dim : Dim::invalid());
  }
  return dims;
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  if (!isStatic()) {
    printer.printAttribute(getSymbols());
    printer << ", ";
  }
  printer << "[";
  auto name = [&](uint32_t symbol) { return getSymbols().getNames()[symbol].str(); };
  llvm::interleaveComma(getDims(), printer.getStream(), [&](const Dim &dim) { printer << dim.text(name); });
  printer << "]>";
}

namespace {

// sum = ['-'] product (('+' | '-') product)*; product = factor ('*' factor)*
class ExpressionParser {
public:
  ExpressionParser(AsmParser &parser, SymbolsAttr symbols) : parser(parser), symbols(symbols) {}

  ParseResult sum(Dim &result) {
    bool negative = succeeded(parser.parseOptionalMinus());
    if (product(result))
      return failure();
    if (negative)
      result = Dim(0) - result;
    for (;;) {
      bool plus = succeeded(parser.parseOptionalPlus());
      if (!plus && failed(parser.parseOptionalMinus()))
        return success();
      Dim right;
      if (product(right))
        return failure();
      result = plus ? result + right : result - right;
    }
  }

private:
  ParseResult product(Dim &result) {
    if (factor(result))
      return failure();
    while (succeeded(parser.parseOptionalStar())) {
      Dim right;
      if (factor(right))
        return failure();
      result *= right;
    }
    return success();
  }

  ParseResult factor(Dim &result) {
    int64_t number;
    if (OptionalParseResult parsed = parser.parseOptionalInteger(number); parsed.has_value()) {
      result = number;
      return *parsed;
    }
    StringRef word;
    SMLoc place = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    if (word == "floordiv" || word == "mod" || word == "min" || word == "max") {
      Dim left, right;
      if (++depth > Dim::maxSize) // bounds the recursion; no valid extent is nested deeper
        return parser.emitError(place, "extents are nested at most ") << Dim::maxSize << " deep";
      if (parser.parseLParen() || sum(left) || parser.parseComma() || sum(right) || parser.parseRParen())
        return failure();
      result = word == "floordiv" ? floorDiv(left, right)
               : word == "mod"    ? mod(left, right)
               : word == "min"    ? min(left, right)
                                  : max(left, right);
      --depth;
      return success();
    }
    for (auto [i, name] : llvm::enumerate(symbols ? symbols.getNames() : ArrayRef<StringAttr>()))
      if (name.getValue() == word) {
        result = Dim::symbol(static_cast<uint32_t>(i));
        return success();
      }
    return parser.emitError(place, "'" + word + "' is not a symbol of the table");
  }

  AsmParser &parser;
  SymbolsAttr symbols;
  size_t depth = 0;
};

} // namespace

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SymbolsAttr symbols;
  SmallVector<Dim> dims;
  if (parser.parseLess())
    return {};
  SMLoc place = parser.getCurrentLocation();
  // The bracket is tried first, because parseAttribute would read it as MLIR's array attribute.
  bool open = succeeded(parser.parseOptionalLSquare());
  if (!open && (parser.parseAttribute(symbols) || parser.parseComma() || parser.parseLSquare()))
    return {};
  auto entry = [&] { return ExpressionParser(parser, symbols).sum(dims.emplace_back()); };
  if (failed(parser.parseOptionalRSquare()) &&
      (parser.parseCommaSeparatedList(AsmParser::Delimiter::None, entry) || parser.parseRSquare()))
    return {};
  if (parser.parseGreater())
    return {};
  if (!llvm::all_of(dims, [](const Dim &dim) { return dim.isValid(); })) {
    parser.emitError(place, "an extent overflows, divides by 0 or is too large an expression");
    return {};
  }
  return get(parser.getContext(), dims, symbols);
}

LogicalResult DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type, function_ref<InFlightDiagnostic()> error) const {
  if (isStatic())
    return error() << "extents that are all numbers belong into the type itself, without an encoding";
  if (shape != getNumbers())
    return error() << "the extents of the type must be those of its encoding: expected " << text(getNumbers())
                   << ", found " << text(shape);
  return success();
}

} // namespace mortise::ir
