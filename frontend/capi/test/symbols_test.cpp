// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs over symbols through the shared library. `reference` runs static shapes, and `pocket` supports revision 1 of
// the ABI, so both are given numbers for the symbols' values.
#include "helpers.hpp"

#include <gmock/gmock.h>

namespace mortise::api {
namespace {

using testing::HasSubstr;

// softmax(x + x) over the rows of x: f32[b, s], flattened to f32[b*s], with b*s at most 1000.
Program rows(Session &session, const Options &options = {}) {
  Builder graph = builder(session);
  const Dim b = get(graph.symbol("b", 1, 64)), s = get(graph.symbol("s", 2, INT64_MAX, 2));
  const Type type(MORTISE_F32, std::vector<Dim>{b, s});
  const uint32_t x = get(graph.symbolicInput("x", type));
  const uint32_t sum = get(graph.op("mortise.add", {x, x}));
  const uint32_t soft = get(graph.op("mortise.softmax", {sum}, {{"axis", 1}}));
  const Dim flat[] = {b * s};
  expectOk(graph.guard(1000 - b * s, MORTISE_RELATION_AT_LEAST, "room for 1000"));
  expectOk(graph.output(get(graph.op("mortise.reshape", {soft}, {Attribute::extents("shape", flat)}))));
  return get(session.compile(graph, options));
}

// The error message, or "" when the results are right.
std::string run(Program &program, int64_t b, int64_t s, int64_t found = -1) {
  const size_t count = static_cast<size_t>(b * s);
  std::vector<float> x(count), y(count);
  for (size_t i = 0; i < count; ++i)
    x[i] = 0.01f * static_cast<float>(i % 37);
  Tensor in(x.data(), MORTISE_F32, {b, s}), out(y.data(), MORTISE_F32, {found < 0 ? b * s : found});
  const MortiseTensor views[] = {in.view(), out.view()};
  const MortiseTensor *inputs[] = {&views[0]}, *outputs[] = {&views[1]};
  if (Result<void> done = program.run(inputs, outputs); !done)
    return done.error().message;
  for (size_t row = 0; row < static_cast<size_t>(b); ++row) {
    const size_t width = static_cast<size_t>(s);
    double total = 0;
    for (size_t i = 0; i < width; ++i)
      total += std::exp(2.0 * x[row * width + i]);
    for (size_t i = 0; i < width; ++i)
      if (std::abs(y[row * width + i] - std::exp(2.0 * x[row * width + i]) / total) > 1e-6)
        return "wrong result";
  }
  return "";
}

TEST(Symbols, OneProgramRunsEveryShape) {
  Session s = session();
  Program program = rows(s);
  for (int round = 0; round < 2; ++round)
    for (int64_t b : {1, 2, 5, 9, 64})
      for (int64_t width : {2, 4, 10, 14})
        EXPECT_EQ(run(program, b, width), "");
  const Json report = Json::parse(get(program.report()));
  EXPECT_EQ(report["values"]["ready"], 20) << report.dump(1);
  EXPECT_EQ(report["values"]["met"], 20);
  EXPECT_EQ(report["symbols"][1],
            Json::parse(R"({"name":"s","min":2,"max":9223372036854775807,"divisor":2,"input":0,"dimension":1})"));
  EXPECT_EQ(report["guards"][0]["reason"], "room for 1000");
  EXPECT_EQ(report["inputs"][0]["type"], "f32[b, s]");
  EXPECT_EQ(report["outputs"][0]["type"], "f32[b*s]");
}

TEST(Symbols, ErrorsNameWhatWasExpected) {
  Session s = session();
  Program program = rows(s);
  EXPECT_THAT(run(program, 65, 2), HasSubstr("input 0 'x', dimension 0: expected b to be from 1 to 64, found 65"));
  EXPECT_THAT(run(program, 2, 3), HasSubstr("expected s to be 2 or more and a multiple of 2, found 3"));
  EXPECT_THAT(run(program, 64, 16), HasSubstr(">= 0 (room for 1000), found -24 for b = 64, s = 16"));
  EXPECT_THAT(run(program, 2, 4, 9), HasSubstr("output 0: expected f32[b*s] = f32[8] (b = 2, s = 4), found f32[9]"));
}

TEST(Symbols, ValuesAndOutputShapes) {
  Session s = session();
  Program program = rows(s);
  Tensor in(nullptr, MORTISE_F32, {3, 8});
  const MortiseTensor view = in.view();
  const MortiseTensor *inputs[] = {&view};
  const std::vector<int64_t> values = get(program.symbols(inputs));
  EXPECT_EQ(values, (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(get(program.outputShape(0, values)), (std::vector<int64_t>{24}));
  EXPECT_FALSE(program.outputShape(1, values));
  std::vector<float> x(24, 1), y(24);
  const void *pointers[] = {x.data()};
  void *outputs[] = {y.data()};
  expectOk(program.runPointers(pointers, outputs, values.data()));
  EXPECT_FLOAT_EQ(y[0], 0.125f);
  EXPECT_FALSE(program.runPointers(pointers, outputs)) << "the values have to be given";
  int64_t room[1];
  size_t count = 0;
  MortiseStatus *status = mortise_program_symbols(program.get(), inputs, 1, room, 1, &count);
  EXPECT_EQ(mortise_status_code(status), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(count, 2u);
  mortise_status_destroy(status);
}

TEST(Symbols, TheLimitIsASetting) {
  Session s = session();
  Program program = rows(s, {{"specialize_limit", "2"}});
  for (int64_t b : {1, 2, 3, 1})
    EXPECT_EQ(run(program, b, 4), "");
  const Json report = Json::parse(get(program.report()));
  EXPECT_EQ(report["values"]["ready"], 2);
  EXPECT_EQ(report["values"]["limit"], 2);
  EXPECT_EQ(report["values"]["dropped"], 2);
  Builder graph = builder(s);
  expectOk(graph.output(get(graph.input("x", MORTISE_F32, {2}))));
  Result<Program> none = s.compile(graph, {{"specialize_limit", "0"}});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("expected a number from 1 to 1000000; found '0'"));
}

TEST(Symbols, APluginOfOpset1GetsNumbers) {
  Session s = session({{"device", "pocket"}, {"plugin_path", ":" POCKET_PLUGIN}});
  Builder graph = builder(s);
  const Dim b = get(graph.symbol("b", 1));
  const Type type(MORTISE_F32, std::vector<Dim>{b, 3});
  const uint32_t x = get(graph.symbolicInput("x", type));
  expectOk(graph.output(get(graph.op("mortise.add", {x, x}))));
  Program program = get(s.compile(graph));
  for (int64_t rows : {1, 2, 7, 2}) {
    std::vector<float> in(static_cast<size_t>(rows) * 3, 2), out(in.size());
    const void *inputs[] = {in.data()};
    void *outputs[] = {out.data()};
    expectOk(program.runPointers(inputs, outputs, &rows));
    EXPECT_EQ(out, std::vector<float>(in.size(), 4));
  }
  const Json report = Json::parse(get(program.report()));
  EXPECT_EQ(report["values"]["kernels_specialised"], 3);
  EXPECT_EQ(report["placement"][0]["kernels"], 3);
  EXPECT_EQ(report["placement"][0]["specialised"], "the plugin knows opset 1, which has no symbolic attributes");
}

TEST(Symbols, ASymbolNeedsAnInputThatTellsItsValue) {
  Session s = session();
  Builder graph = builder(s);
  const Dim b = get(graph.symbol("b", 1));
  const Type type(MORTISE_F32, std::vector<Dim>{2 * b});
  const uint32_t x = get(graph.symbolicInput("x", type));
  expectOk(graph.output(get(graph.op("mortise.add", {x, x}))));
  Result<Program> program = s.compile(graph);
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, HasSubstr("expected an input with an extent that is just the symbol b"));
}

TEST(Symbols, WhatIsMissingIsAnError) {
  Session s = session();
  Builder graph = builder(s);
  uint32_t number = 0;
  const MortiseExpr empty{nullptr, 0};
  const int64_t dynamic[] = {MORTISE_DYNAMIC};
  const MortiseType type{sizeof type, nullptr, MORTISE_F32, 1, dynamic, nullptr, nullptr};
  for (MortiseStatus *status : {mortise_builder_symbol(nullptr, "b", 1, 2, 1, &number),
                                mortise_builder_symbol(graph.get(), "b", 5, 2, 1, &number),
                                mortise_builder_symbol(graph.get(), nullptr, 1, 2, 1, &number),
                                mortise_builder_symbol(graph.get(), "b", 1, 2, 1, nullptr),
                                mortise_builder_guard(graph.get(), nullptr, MORTISE_RELATION_ZERO, ""),
                                mortise_builder_guard(graph.get(), &empty, MORTISE_RELATION_ZERO, ""),
                                mortise_builder_input(graph.get(), "x", &type, 0, &number),
                                mortise_program_symbols(nullptr, nullptr, 0, nullptr, 0, nullptr),
                                mortise_program_output_shape(nullptr, nullptr, 0, 0, nullptr, 0, nullptr)}) {
    EXPECT_EQ(mortise_status_code(status), MORTISE_INVALID_ARGUMENT) << mortise_status_message(status);
    mortise_status_destroy(status);
  }
}

} // namespace
} // namespace mortise::api
