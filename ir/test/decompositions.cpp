// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "decompositions.hpp"

#include "ranges.hpp"

#include <mortise/graph.hpp>
#include <mortise/ir/decompose.hpp>
#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/IR/PatternMatch.h>
#include <mlir/IR/Verifier.h>
#include <mlir/Parser/Parser.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <cmath>
#include <cstring>
#include <random>

namespace mortise::test {
namespace {

using Module = mlir::OwningOpRef<mlir::ModuleOp>;
using GraphPtr = std::shared_ptr<const Graph>;
constexpr double infinity = std::numeric_limits<double>::infinity();

mlir::MLIRContext &context() {
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::MortiseDialect, mlir::func::FuncDialect>();
  return context;
}

// ---- From a case to text

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}
std::vector<std::string> split(const std::string &list) {
  std::vector<std::string> parts;
  for (size_t from = 0; from < list.size();) {
    size_t to = std::min(list.find(',', from), list.size());
    parts.push_back(trimmed(list.substr(from, to - from)));
    from = to + 1;
  }
  return parts;
}
// The value of an extent such as "2*b" for these values of the symbols.
long valueOf(const std::string &extent, std::pair<int, int> values) {
  long product = 1;
  for (size_t from = 0; from < extent.size();) {
    size_t to = std::min(extent.find('*', from), extent.size());
    std::string factor = extent.substr(from, to - from);
    product *= factor == "b" ? values.first : factor == "s" ? values.second : std::stol(factor);
    from = to + 1;
  }
  return product;
}
bool isNumber(const std::string &extent) { return extent.find_first_not_of("0123456789") == std::string::npos; }

struct Spelling {
  std::string element;
  std::pair<int, int> values;
  bool symbolic;

  std::string dims(const std::vector<std::string> &extents) const {
    bool numbers = std::ranges::all_of(extents, isNumber) || !symbolic;
    std::string list;
    for (const std::string &extent : extents)
      list += (list.empty() ? "" : ", ") + (numbers ? std::to_string(valueOf(extent, values)) : extent);
    return std::string("#mortise.dims<") + (numbers ? "" : "#s, ") + "[" + list + "]>";
  }
  std::string tensor(std::string spec) const {
    std::string type = element;
    if (size_t colon = spec.find(':'); colon != std::string::npos) {
      type = spec.substr(colon + 1);
      type = type == "wide" ? (element == "f64" ? "f64" : "f32") : type;
      spec = spec.substr(0, colon);
    }
    std::vector<std::string> extents = split(spec);
    bool numbers = std::ranges::all_of(extents, isNumber) || !symbolic;
    std::string text = "tensor<";
    for (const std::string &extent : extents)
      text += (symbolic && !isNumber(extent) ? "?" : std::to_string(valueOf(extent, values))) + "x";
    return text + type + (numbers ? ">" : ", " + dims(extents) + ">");
  }
  std::string operator()(const std::string &text) const {
    std::string result;
    for (size_t i = 0; i < text.size();) {
      if (text[i] == '{' && text.compare(i, 2, "{{") != 0) {
        size_t end = text.find('}', i);
        result += tensor(text.substr(i + 1, end - i - 1));
        i = end + 1;
      } else if (text.compare(i, 2, "{{") == 0 || text.compare(i, 2, "}}") == 0) { // braces of a dictionary
        result += text[i];
        i += 2;
      } else if (text.compare(i, 2, "[[") == 0) {
        size_t end = text.find("]]", i);
        result += dims(split(text.substr(i + 2, end - i - 2)));
        i = end + 2;
      } else {
        result += text[i++];
      }
    }
    return result;
  }
};

std::string functionText(const Case &test, const Spelling &spell) {
  std::string arguments, types, results = spell(test.results);
  for (const std::string &argument : [&] {
         std::vector<std::string> list;
         int depth = 0;
         std::string current;
         for (char c : test.arguments) {
           depth += c == '{' ? 1 : c == '}' ? -1 : 0;
           if (c == ',' && depth == 0) {
             list.push_back(trimmed(current));
             current.clear();
           } else {
             current += c;
           }
         }
         if (!trimmed(current).empty())
           list.push_back(trimmed(current));
         return list;
       }()) {
    size_t colon = argument.find(':');
    std::string name = argument.substr(0, colon), type = spell(trimmed(argument.substr(colon + 1)));
    arguments += (arguments.empty() ? "" : ", ") + ("%" + name) + ": " + type + " {mortise.name = \"" + name + "\"}";
    types += (types.empty() ? "" : ", ") + type;
  }
  size_t count = 1;
  for (size_t at = 0; (at = test.results.find("}, {", at)) != std::string::npos; ++at)
    ++count;
  std::string returned = count > 1 ? "%r#0" : "%r";
  for (size_t i = 1; i < count; ++i)
    returned += ", %r#" + std::to_string(i);
  std::string text = spell.symbolic ? "#s = #mortise.symbols<b in [1, *], s in [1, *]>\n" : "";
  text += "func.func @f(" + arguments + ") -> (" + results + ")" +
          (spell.symbolic ? " attributes {mortise.symbols = #s}" : "") + " {\n  %r" +
          (count > 1 ? ":" + std::to_string(count) : "") + " = mortise." + spell(test.op) + " : (" + types + ") -> " +
          (count > 1 ? "(" + results + ")" : results) + "\n  return " + returned + " : " + results + "\n}\n";
  return text;
}

Module parse(const std::string &text, Outcome &outcome) {
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context(), [&](mlir::Diagnostic &diagnostic) {
    message += diagnostic.str() + "; ";
    return mlir::success();
  });
  Module module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(&context()));
  if (!module)
    outcome.failures.push_back("does not parse: " + message + "\n" + text);
  return module;
}

// ---- Rewrites

bool decomposeAll(mlir::ModuleOp module, bool once) {
  mlir::IRRewriter rewriter(&context());
  for (bool found = true; found; found = found && !once) {
    std::vector<mlir::Operation *> list;
    module.walk([&](mlir::Operation *op) {
      if (ir::isComposite(op))
        list.push_back(op);
    });
    found = !list.empty();
    for (mlir::Operation *op : list)
      if (mlir::failed(ir::decompose(op, rewriter)))
        return false;
  }
  return mlir::succeeded(mlir::verify(module));
}
bool canonicalise(mlir::ModuleOp module) {
  mlir::PassManager manager(&context());
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
  return mlir::succeeded(manager.run(module));
}

// ---- Values

// Numbers of one kind that the type represents.
std::vector<double> specials(int32_t dtype, const std::string &kind) {
  double largest = dtype == MORTISE_F64 ? std::numeric_limits<double>::max() : 3.3895313892515355e38, tiny = 0x1p-133;
  if (dtype == MORTISE_F32)
    largest = std::numeric_limits<float>::max();
  if (dtype == MORTISE_F16)
    largest = 65504, tiny = 0x1p-24;
  if (dtype == MORTISE_F8E4M3FN)
    largest = 448, tiny = 0x1p-9;
  if (dtype == MORTISE_F8E5M2)
    largest = 57344, tiny = 0x1p-16;
  if (dtype == MORTISE_F32)
    tiny = 0x1p-149;
  if (dtype == MORTISE_F64)
    tiny = 0x1p-1074;
  bool infinite = dtype != MORTISE_F8E4M3FN;
  if (kind == "nan")
    return {NAN};
  if (kind == "infinity")
    return infinite ? std::vector<double>{infinity, -infinity} : std::vector<double>{448, -448};
  if (kind == "zero")
    return {0.0, -0.0};
  if (kind == "subnormal")
    return {tiny, -tiny, 3 * tiny};
  if (kind == "extreme")
    return {largest, -largest, largest / 2};
  if (kind == "mixed")
    return {NAN, infinite ? infinity : 448, infinite ? -infinity : -448, 0.0, -0.0, tiny, largest, -largest};
  return {};
}
const std::vector<std::string> allKinds{"random", "nan", "infinity", "zero", "subnormal", "extreme", "mixed"};

// One input. Names say what is special: "positive" stays above 0 when random; "holes" has -inf in places, its first row
// wholly; "seen" likewise as i1; "targets" holds classes 0 .. 6 and, now and then, one out of range or ignored; "key"
// and "offset" count words; "..offsets" are ascending.
std::vector<char> fill(const MortiseType &type, std::string_view name, const std::string &kind,
                       std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  auto count = static_cast<size_t>(elementCount(type));
  size_t row = type.rank ? static_cast<size_t>(type.dims[type.rank - 1]) : 1;
  std::vector<double> special = isFloat(type.dtype) ? specials(type.dtype, kind) : std::vector<double>();
  std::vector<long double> values(count);
  // Special values are in one of four elements, or in every element.
  bool everywhere = !special.empty() && random() % 4 == 0;
  for (size_t i = 0; i < count; ++i) {
    double value = normal(random);
    if (name == "positive")
      value = std::fabs(value) + 0.125;
    if (name == "holes" && (i < row || random() % 8 == 0))
      value = -infinity;
    if (!special.empty() && (everywhere || random() % 4 == 0))
      value = special[random() % special.size()];
    if (!isFloat(type.dtype)) {
      if (name == "seen")
        value = i < row ? 0 : random() % 4 != 0;
      else if (name == "targets")
        value = random() % 8 == 0 ? (random() % 2 ? -100 : 7) : static_cast<double>(random() % 7);
      else if (name.ends_with("offsets"))
        value = static_cast<double>(2 * i) - static_cast<double>(random() % 2);
      else if (name == "key" || name == "offset")
        value = static_cast<double>(random() % 1000);
      else if (type.dtype == MORTISE_I8 || type.dtype == MORTISE_I4 || type.dtype == MORTISE_UI8)
        value = static_cast<double>(random() % 256);
      else
        value = static_cast<double>(random() % 5) - 1;
    }
    values[i] = value;
  }
  return encode(type, values);
}
Buffers fillAll(const MortiseGraph &graph, const std::string &kind, uint64_t seed) {
  std::mt19937_64 random(seed); // NOLINT(bugprone-random-generator-seed): a test repeats itself
  Buffers buffers;
  for (size_t i = 0; i < graph.input_count; ++i)
    buffers.push_back(fill(*graph.inputs[i]->type, graph.inputs[i]->name, kind, random));
  return buffers;
}

// ---- Comparison

double lastPlace(int32_t dtype, long double value) {
  int digits = dtype == MORTISE_F64        ? 52
               : dtype == MORTISE_F32      ? 23
               : dtype == MORTISE_F16      ? 10
               : dtype == MORTISE_BF16     ? 7
               : dtype == MORTISE_F8E4M3FN ? 3
                                           : 2;
  return std::ldexp(1.0, std::ilogb(std::max(std::fabs(static_cast<double>(value)), 0x1p-100)) - digits);
}

struct Comparison {
  const Case &test;
  std::string where;
  Outcome &outcome;
  bool good = true;

  void fail(const std::string &message) {
    good = false;
    if (outcome.failures.size() < 40)
      outcome.failures.push_back(where + ": " + message);
  }
  // Checks that both results lie in the range, with NaN in the same places unless rounding decides whether there is
  // one.
  void check(const MortiseType &type, const std::vector<char> &expected, const std::vector<char> &found,
             const Ranges &ranges, const char *what) {
    std::vector<long double> x = decode(type, expected.data()), y = decode(type, found.data());
    for (size_t i = 0; i < x.size() && good; ++i) {
      auto a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
      bool same = std::isnan(a) ? std::isnan(b) : x[i] == y[i] && std::signbit(a) == std::signbit(b);
      const Range &range = ranges[i];
      auto text = [&] {
        return std::string(what) + ", element " + std::to_string(i) + ": the op gives " + std::to_string(a) +
               ", its decomposition " + std::to_string(b) + " (range " +
               std::to_string(static_cast<double>(range.low)) + " to " +
               std::to_string(static_cast<double>(range.high)) + ", NaN " + std::to_string(range.nan) + ")";
      };
      ++outcome.elements;
      if (test.exact && !same)
        fail(text());
      if (test.exact)
        continue;
      if (!range.allows(a) || !range.allows(b) || (std::isnan(a) != std::isnan(b) && range.nan != Range::maybe))
        fail(text());
      bool finite = std::isfinite(static_cast<double>(range.low)) && std::isfinite(static_cast<double>(range.high));
      if (range.isOpen()) {
        ++outcome.open;
        outcome.differing += std::isfinite(a) != std::isfinite(b);
      }
      if (range.nan == Range::never && finite)
        outcome.tight +=
            static_cast<double>(range.high - range.low) <= 8 * lastPlace(type.dtype, std::max(-range.low, range.high));
      if (!same && range.isPoint() && range.low != 0)
        fail(text());
    }
  }
};

// The range covers the op's own evaluation in f64, except that the interpreter uses other formulas than the
// decomposition (x / (1 + e^-x) for x * logistic(x)). Widens the range by 8 roundings in f64, each of at most 2^-53.
void allowForms(Ranges &ranges, int32_t dtype) {
  if (dtype != MORTISE_F64)
    return;
  for (Range &range : ranges) {
    long double slack = std::max(std::abs(range.low), std::abs(range.high)) * 0x1p-49L + 0x1p-1070L;
    if (std::isfinite(static_cast<double>(slack))) {
      range.low -= slack;
      range.high += slack;
    }
  }
}

struct RandomProgram {
  GraphPtr whole, once, full, small;
};
Result<RandomProgram> compile(const std::string &text, Outcome &outcome) {
  Error bad{MORTISE_INTERNAL, "does not decompose or verify"};
  Module module = parse(text, outcome);
  if (!module)
    return bad;
  RandomProgram program;
  auto keep = [&](GraphPtr &to) -> Result<void> {
    auto exported = ir::exportGraph(*module);
    if (!exported)
      return exported.error();
    to = *exported;
    return {};
  };
  if (auto kept = keep(program.whole); !kept)
    return kept.error();
  if (!decomposeAll(*module, true))
    return bad;
  if (auto kept = keep(program.once); !kept)
    return kept.error();
  if (!decomposeAll(*module, false))
    return bad;
  if (auto kept = keep(program.full); !kept)
    return kept.error();
  if (!canonicalise(*module))
    return bad;
  if (auto kept = keep(program.small); !kept)
    return kept.error();
  return program;
}

// Compares all levels of decomposition with the op `expected` on one set of values.
void compare(const Case &test, const std::string &where, const MortiseGraph &expected,
             const std::vector<std::pair<const char *, GraphPtr>> &levels, const GraphPtr &full,
             const std::string &kind, uint64_t seed, Outcome &outcome) {
  Comparison comparison{test, where, outcome};
  Buffers inputs = fillAll(expected, kind, seed);
  Result<Buffers> whole = interpret(expected, inputs);
  if (!whole)
    return comparison.fail(whole.error().message), void(++outcome.failed);
  std::vector<Ranges> ranges(expected.output_count);
  if (!test.exact) {
    std::vector<Ranges> exact;
    for (size_t i = 0; i < inputs.size(); ++i) {
      exact.emplace_back();
      for (long double value : decode(*expected.inputs[i]->type, inputs[i].data()))
        exact.back().push_back(Range::of(value));
    }
    auto enclosed = enclose(full->view(), exact);
    if (!enclosed)
      return comparison.fail(enclosed.error().message), void(++outcome.failed);
    ranges = std::move(*enclosed);
  }
  for (size_t o = 0; o < expected.output_count; ++o) {
    const MortiseType &type = *expected.outputs[o]->type;
    ranges[o].resize(static_cast<size_t>(elementCount(type)));
    allowForms(ranges[o], type.dtype);
  }
  for (auto &[what, graph] : levels) {
    Result<Buffers> parts = interpret(graph->view(), inputs);
    if (!parts) {
      comparison.fail(std::string(what) + ": " + parts.error().message);
      continue;
    }
    for (size_t o = 0; o < expected.output_count; ++o)
      comparison.check(*expected.outputs[o]->type, (*whole)[o], (*parts)[o], ranges[o], what);
  }
  ++(comparison.good ? outcome.passed : outcome.failed);
}

const std::vector<std::pair<int, int>> allExtents{{3, 5}, {1, 1}, {0, 5}, {2, 0}};
uint64_t seedOf(const std::string &text) { return std::hash<std::string>()(text); }

} // namespace

void Outcome::add(const Outcome &other) {
  passed += other.passed;
  failed += other.failed;
  elements += other.elements;
  open += other.open;
  differing += other.differing;
  tight += other.tight;
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
}

const std::vector<std::string> &kinds() { return allKinds; }

std::vector<std::string> composites() {
  std::vector<std::string> names;
  for (mlir::RegisteredOperationName name : context().getRegisteredOperationsByDialect("mortise"))
    if (auto *known = name.getInterface<ir::MortiseOp>(); known && known->isComposite())
      names.push_back(name.getStringRef().drop_front(std::strlen("mortise.")).str());
  return names;
}

std::vector<std::string> untried() {
  std::vector<std::string> result;
  for (const std::string &composite : composites())
    for (const char *element :
         {"f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i64", "i32", "i16", "i8", "i4", "ui8", "i1"}) {
      bool taken = false, tried = false;
      for (const Case &test : cases()) {
        auto text = [&](const char *type) { return functionText(test, {type, {3, 5}, false}); };
        if (test.composite != composite || text("f64") == text("f32"))
          continue; // no operand has the case's element type
        Outcome ignored;
        taken = taken || parse(text(element), ignored);
        tried = tried || std::ranges::find(test.elements, element) != test.elements.end();
      }
      if (taken && !tried)
        result.push_back(composite + " of " + element);
    }
  return result;
}

Outcome runCase(const Case &test, const std::string &element, const std::vector<std::string> &kinds, int rounds) {
  Outcome outcome;
  for (auto values : test.extents.empty() ? allExtents : test.extents) {
    std::string text = functionText(test, {element, values, false});
    Result<RandomProgram> program = compile(text, outcome);
    if (!program) {
      outcome.failures.push_back(program.error().message + "\n" + text);
      ++outcome.failed;
      continue;
    }
    std::vector<std::pair<const char *, GraphPtr>> levels = {
        {"one level", program->once}, {"decomposed", program->full}, {"canonicalised", program->small}};
    for (const std::string &kind : kinds) {
      const std::string where = test.op + " " + element + " b=" + std::to_string(values.first) +
                                " s=" + std::to_string(values.second) + " " + kind;
      for (int round = 0; round < rounds; ++round)
        compare(test, where, program->whole->view(), levels, program->full, kind,
                seedOf(where) + static_cast<uint64_t>(round), outcome);
    }
  }
  return outcome;
}

Outcome runSymbolic(const Case &test, const std::string &element) {
  Outcome outcome;
  if (test.arguments.find('b') == std::string::npos && test.op.find("[[") == std::string::npos)
    return outcome;
  std::string text = functionText(test, {element, {3, 5}, true});
  Result<RandomProgram> symbolic = compile(text, outcome);
  std::vector<std::pair<int, int>> list = test.extents.empty() ? allExtents : test.extents;
  for (auto values : list) {
    if (values.first < 1 || values.second < 1)
      continue;
    std::string where = "symbolic " + test.op + " " + element + " b=" + std::to_string(values.first) +
                        " s=" + std::to_string(values.second);
    Result<RandomProgram> numbers = compile(functionText(test, {element, values, false}), outcome);
    int64_t symbols[] = {values.first, values.second};
    std::vector<std::pair<const char *, GraphPtr>> levels;
    for (auto &[what, graph] : {std::pair("whole", symbolic ? symbolic->whole : nullptr),
                                {"one level", symbolic ? symbolic->once : nullptr},
                                {"decomposed", symbolic ? symbolic->full : nullptr},
                                {"canonicalised", symbolic ? symbolic->small : nullptr}}) {
      auto special =
          graph ? specialise(graph->view(), {symbols, graph->view().symbol_count}) : Result<GraphPtr>(GraphPtr());
      if (!special || !graph || !numbers) {
        outcome.failures.push_back(where + ": " +
                                   (!symbolic  ? symbolic.error().message
                                    : !numbers ? numbers.error().message
                                               : special.error().message) +
                                   "\n" + text);
        ++outcome.failed;
        return outcome;
      }
      levels.emplace_back(what, *special);
    }
    compare(test, where, numbers->whole->view(), levels, numbers->full, "random", seedOf(where), outcome);
  }
  return outcome;
}

Outcome runAgainst(const Case &test, const Case &other, const std::string &element) {
  Outcome outcome;
  Result<RandomProgram> program = compile(functionText(test, {element, {3, 5}, false}), outcome);
  Result<RandomProgram> wrong = compile(functionText(other, {element, {3, 5}, false}), outcome);
  if (program && wrong)
    compare(test, "planted", program->whole->view(), {{"decomposed", wrong->full}}, wrong->full, "random", 1, outcome);
  return outcome;
}

} // namespace mortise::test
