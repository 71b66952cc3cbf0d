// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "view_builder.hpp"

namespace mortise::test {

// A graph with every construct of format version 1. Never change it: golden/v1.mrtg has its bytes.
inline void everything(ViewBuilder &b) {
  b.symbol("batch", 1, 64, 2);
  b.symbol("length", 0, INT64_MAX);
  using Step = MortiseExprStep;
  ViewBuilder::Program batch{Step{MORTISE_EXPR_SYMBOL, 0, 0}}, four{Step{MORTISE_EXPR_CONST, 0, 4}};
  ViewBuilder::Program half{Step{MORTISE_EXPR_SYMBOL, 0, 1}, Step{MORTISE_EXPR_CONST, 0, 2},
                            Step{MORTISE_EXPR_FLOORDIV, 0, 0}};
  const MortiseType *dynamic = b.type(MORTISE_F32, {MORTISE_DYNAMIC, 4, MORTISE_DYNAMIC}, {batch, four, half});
  const MortiseType *matrix = b.type(MORTISE_BF16, {4, 4}), *strided = b.type(MORTISE_F16, {2, 3}, {}, {1, 2});
  MortiseValue *x = b.input(dynamic, 0, "x"), *w = b.input(matrix, MORTISE_VALUE_CONSTANT, "layer.0.weight");
  MortiseValue *cache = b.input(b.type(MORTISE_BF16, {4, 4}), MORTISE_VALUE_STATE, "cache"), *y = b.input(strided);
  MortiseValue *relu = b.op("relu", {x}, dynamic);
  b.lastNode().location = "model.py:12";
  MortiseValue *sum = b.op("add", {w, cache}, matrix);
  MortiseValue *literal =
      b.op("constant", {}, b.type(MORTISE_I4, {3}), {tensor("value", b.type(MORTISE_I4, {3}), {0x21, 0x0f})});
  MortiseValue *other =
      b.op("acme.swizzle", {y, nullptr, literal}, b.type(MORTISE_I64, {}),
           {flag("fast", true), integer("axis", -3), real("scale", 0.125), string("mode", "wide"),
            integers("axes", {0, 2, INT64_MIN}), reals("factors", {1.5, -0.0}), integers("empty", {})});
  b.output(relu);
  b.output(sum);
  b.output(other);
  b.output(x);
  b.output(other);
  b.alias(2, 1);
}

inline MortiseExprStep constant(int64_t value) { return {MORTISE_EXPR_CONST, 0, value}; }
inline MortiseExprStep symbol(int64_t number) { return {MORTISE_EXPR_SYMBOL, 0, number}; }
inline MortiseExprStep apply(int32_t op) { return {op, 0, 0}; }

// A graph with the additions of format version 2: programs in attributes, guards, two nested bodies. Never change it:
// golden/v2.mrtg has its bytes.
struct EverythingNew {
  ViewBuilder b, body, inner;
  MortiseGraph bodyView{}, innerView{};
  EverythingNew() {
    for (ViewBuilder *each : {&b, &body, &inner}) {
      each->symbol("rows", 2, 1024, 2);
      each->symbol("length", 1, INT64_MAX);
    }
    using Program = ViewBuilder::Program;
    const Program rows{symbol(0)}, length{symbol(1)}, four{constant(4)};
    const Program half{symbol(0), constant(2), apply(MORTISE_EXPR_FLOORDIV)};
    const auto type = [&](ViewBuilder &each) {
      return each.type(MORTISE_F32, {MORTISE_DYNAMIC, MORTISE_DYNAMIC}, {rows, length});
    };
    const MortiseType *x = type(inner);
    inner.output(inner.op("tanh", {inner.input(x, 0, "x")}, x));
    innerView = inner.view();

    x = type(body);
    MortiseValue *first = body.input(x, 0, "x"), *run = body.op("acme.call", {first}, x);
    body.body(innerView);
    body.output(body.op("add", {run, first}, x));
    body.output(first);
    bodyView = body.view();

    x = type(b);
    const MortiseType *split =
        b.type(MORTISE_F32, {MORTISE_DYNAMIC, 2, MORTISE_DYNAMIC}, {half, {constant(2)}, length});
    MortiseValue *input = b.input(x, 0, "x");
    MortiseValue *parts =
        b.op("reshape", {input}, split,
             {extents("shape", {MORTISE_DYNAMIC, 2, MORTISE_DYNAMIC}, {half, {constant(2)}, length})});
    MortiseValue *looped = b.op("acme.repeat", {input}, x, {integer("times", 3)});
    b.body(bodyView);
    b.output(parts);
    b.output(looped);
    b.guard({symbol(1), symbol(0), apply(MORTISE_EXPR_SUB)}, MORTISE_RELATION_AT_LEAST, "model.py:7: length >= rows");
    b.guard({symbol(1), constant(3), apply(MORTISE_EXPR_MOD)}, MORTISE_RELATION_ZERO, "");
  }
  const MortiseGraph &view() { return b.view(); }
};

} // namespace mortise::test
