// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The API through the shared library, on the plugin `reference`.
#include "helpers.hpp"

#include <thread>

namespace mortise::api {
namespace {

// softmax(gelu(x + w)) over rows of 8, with w constant.
Program sample(Session &session, const Options &options = {}) {
  Builder graph = builder(session);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {2, 8}));
  const uint32_t w = get(graph.input("w", MORTISE_F32, {2, 8}, MORTISE_VALUE_CONSTANT));
  const uint32_t sum = get(graph.op("mortise.add", {x, w}, {}, "model.py:1"));
  const uint32_t gelu = get(graph.op("mortise.gelu", {sum}, {{"approximate", "none"}}, "model.py:2"));
  expectOk(graph.output(get(graph.op("mortise.softmax", {gelu}, {{"axis", 1}}, "model.py:3"))));
  return get(session.compile(graph, options));
}

struct Buffers {
  std::vector<float> x = std::vector<float>(16), w = std::vector<float>(16), y = std::vector<float>(16);
  Tensor tx{x.data(), MORTISE_F32, {2, 8}}, tw{w.data(), MORTISE_F32, {2, 8}}, ty{y.data(), MORTISE_F32, {2, 8}};
  MortiseTensor views[3] = {tx.view(), tw.view(), ty.view()};
  const MortiseTensor *inputs[2] = {&views[0], &views[1]};
  const MortiseTensor *outputs[1] = {&views[2]};
  Buffers() {
    for (int i = 0; i < 16; ++i) {
      x[static_cast<size_t>(i)] = 0.3f * static_cast<float>(i) - 2;
      w[static_cast<size_t>(i)] = 0.1f * static_cast<float>(i % 5);
    }
  }
  void check() const {
    for (size_t row = 0; row < 2; ++row) {
      double e[8], total = 0;
      for (size_t i = 0; i < 8; ++i) {
        const double v = static_cast<double>(x[row * 8 + i]) + w[row * 8 + i];
        total += e[i] = std::exp(v * 0.5 * std::erfc(-v * M_SQRT1_2));
      }
      for (size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(y[row * 8 + i], e[i] / total, 1e-6);
    }
  }
};

TEST(Api, BuildsCompilesAndRuns) {
  Session s = session();
  Program program = sample(s);
  Buffers b;
  expectOk(program.bind(b.inputs));
  expectOk(program.run(b.inputs, b.outputs));
  b.check();
  std::fill(b.y.begin(), b.y.end(), 0.f);
  const void *in[] = {b.x.data(), nullptr};
  void *out[] = {b.y.data()};
  expectOk(program.runPointers(in, out));
  b.check();
}

TEST(Api, ConstantsAreSwappedByBindingAgain) {
  Session s = session();
  Program program = sample(s);
  Buffers b;
  expectOk(program.bind(b.inputs));
  Buffers other;
  std::fill(other.w.begin(), other.w.end(), 1.f);
  expectOk(program.bind(other.inputs));
  expectOk(program.run(other.inputs, other.outputs));
  other.check();
}

TEST(Api, RunBeforeBindIsAnError) {
  Session s = session();
  Program program = sample(s);
  Buffers b;
  EXPECT_FALSE(program.run(b.inputs, b.outputs));
}

TEST(Api, ReportsWhatRanWhereAndWhy) {
  Session s = session();
  Program program = sample(s);
  Buffers b;
  expectOk(program.bind(b.inputs));
  ASSERT_EQ(mortise_program_profile(program.get(), b.inputs, 2, b.outputs, 1), nullptr);
  const Json report = Json::parse(get(program.report()));
  EXPECT_EQ(report["name"], "test");
  EXPECT_GE(report["nodes"], 3);
  for (const char *stage : {"passes", "place", "kernels", "bind"})
    EXPECT_GE(report["compile_s"][stage], 0) << stage;
  ASSERT_EQ(report["placement"].size(), 1u);
  EXPECT_EQ(report["placement"][0]["plugin"], "reference");
  EXPECT_EQ(report["placement"][0]["nodes"].size(), report["nodes"]);
  EXPECT_EQ(report["inputs"][1]["constant"], true);
  EXPECT_EQ(report["inputs"][0]["type"], "f32[2, 8]");
  EXPECT_EQ(report["outputs"][0]["alias"], -1);
}

TEST(Api, DescribesPluginsAndConfiguration) {
  Session s = session();
  const Json description = Json::parse(get(s.describe()));
  bool found = false;
  for (const Json &device : description["devices"])
    found = found || (device["kind"] == "reference" && device["automatic"] == false);
  EXPECT_TRUE(found) << description.dump(1);
  EXPECT_TRUE(description["rejected"].is_array());
  for (const Json &setting : description["config"])
    if (setting["key"] == "device") {
      EXPECT_EQ(setting["value"], "reference");
      EXPECT_EQ(setting["source"], "option");
    }
}

TEST(Api, StateIsUpdatedInTheCallersMemory) {
  Session s = session();
  Builder graph = builder(s);
  const uint32_t state = get(graph.input("cache", MORTISE_F32, {4}, MORTISE_VALUE_STATE));
  const uint32_t x = get(graph.input("x", MORTISE_F32, {4}));
  const uint32_t next = get(graph.op("mortise.add", {state, x}));
  expectOk(graph.output(next, 0));
  expectOk(graph.output(get(graph.op("mortise.neg", {next}))));
  Program program = get(s.compile(graph));
  float cache[] = {1, 2, 3, 4}, in[] = {10, 10, 10, 10}, out[4];
  const Tensor tc(cache, MORTISE_F32, {4}), ti(in, MORTISE_F32, {4}), to(out, MORTISE_F32, {4});
  const MortiseTensor vc = tc.view(), vi = ti.view(), vo = to.view();
  const MortiseTensor *inputs[] = {&vc, &vi}, *outputs[] = {nullptr, &vo};
  for (int call = 1; call <= 3; ++call) {
    expectOk(program.run(inputs, outputs));
    EXPECT_EQ(cache[0], 1.f + 10.f * static_cast<float>(call));
    EXPECT_EQ(out[3], -(4.f + 10.f * static_cast<float>(call)));
  }
}

TEST(Api, ADonatedInputIsGivenUp) {
  Session s = session();
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {4}, MORTISE_VALUE_DONATED)),
                 y = get(graph.input("y", MORTISE_F32, {4}));
  expectOk(graph.output(get(graph.op("mortise.add", {get(graph.op("mortise.neg", {x})), y}))));
  Program program = get(s.compile(graph));
  const Json report = Json::parse(get(program.report()));
  EXPECT_EQ(report["inputs"][0]["donated"], true);
  EXPECT_EQ(report["inputs"][1]["donated"], false);
  float in[] = {1, 2, 3, 4}, more[] = {10, 10, 10, 10}, out[4];
  const Tensor tx(in, MORTISE_F32, {4}), ty(more, MORTISE_F32, {4}), to(out, MORTISE_F32, {4});
  const MortiseTensor vx = tx.view(), vy = ty.view(), vo = to.view();
  const MortiseTensor *inputs[] = {&vx, &vy}, *same[] = {&vy, &vy}, *outputs[] = {&vo};
  expectOk(program.run(inputs, outputs));
  EXPECT_EQ(out[3], 6);
  EXPECT_EQ(more[3], 10);
  const Result<void> refused = program.run(same, outputs);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("because it is donated"), std::string::npos) << refused.error().message;
}

TEST(Api, OutputsMayBeInputsLiteralsAndEachOther) {
  Session s = session();
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {2}));
  const float ones[] = {1, 1};
  const uint32_t literal =
      get(graph.op("mortise.constant", {}, {{"value", MORTISE_F32, {2}, std::as_bytes(std::span(ones))}}));
  const uint32_t sum = get(graph.op("mortise.add", {x, literal}));
  for (uint32_t value : {x, literal, sum, sum})
    expectOk(graph.output(value));
  Program program = get(s.compile(graph));
  float in[] = {5, 6}, out[4][2] = {};
  const void *inputs[] = {in};
  void *outputs[] = {out[0], out[1], out[2], out[3]};
  expectOk(program.runPointers(inputs, outputs));
  EXPECT_EQ(out[0][1], 6);
  EXPECT_EQ(out[1][1], 1);
  EXPECT_EQ(out[2][1], 7);
  EXPECT_EQ(out[3][0], 6);
}

TEST(Api, AGraphThatComputesNothingIsCopies) {
  Session s = session();
  Builder graph = builder(s);
  const float twos[] = {2, 2};
  expectOk(graph.output(get(graph.input("x", MORTISE_F32, {2}))));
  expectOk(graph.output(
      get(graph.op("mortise.constant", {}, {{"value", MORTISE_F32, {2}, std::as_bytes(std::span(twos))}}))));
  Program program = get(s.compile(graph));
  float in[] = {5, 6}, out[2][2] = {};
  const void *inputs[] = {in};
  void *outputs[] = {out[0], out[1]};
  expectOk(program.runPointers(inputs, outputs));
  EXPECT_EQ(out[0][1], 6);
  EXPECT_EQ(out[1][0], 2);
}

TEST(Api, EmptyTensorsAndScalarsRun) {
  Session s = session();
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {0, 3})), y = get(graph.input("y", MORTISE_F32, {}));
  expectOk(graph.output(get(graph.op("mortise.neg", {x}))));
  expectOk(graph.output(get(graph.op("mortise.reduce_sum", {x}, {{"axes", std::vector<int64_t>{0, 1}}}))));
  expectOk(graph.output(get(graph.op("mortise.neg", {y}))));
  Program program = get(s.compile(graph));
  float scalar = 3, nothing = 0, out[3] = {1, 1, 1};
  const void *inputs[] = {&nothing, &scalar};
  void *outputs[] = {&out[0], &out[1], &out[2]};
  expectOk(program.runPointers(inputs, outputs));
  EXPECT_EQ(out[0], 1); // not written
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(out[2], -3);
}

TEST(Api, ManyThreadsCompileAndRun) {
  Session s = session();
  Program shared = sample(s);
  Buffers bound;
  expectOk(shared.bind(bound.inputs));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      Buffers b;
      const void *in[] = {b.x.data(), nullptr};
      void *out[] = {b.y.data()};
      for (int i = 0; i < 20; ++i)
        expectOk(shared.runPointers(in, out));
      b.check();
      Program own = sample(s);
      expectOk(own.bind(b.inputs));
      expectOk(own.run(b.inputs, b.outputs));
      b.check();
    });
  for (std::thread &thread : threads)
    thread.join();
}

// ---- Bad calls

TEST(ApiErrors, NullsAreRefused) {
  Session s = session();
  Builder graph = builder(s);
  Program program = sample(s);
  uint32_t value = 0;
  const int64_t dims[] = {2};
  const MortiseType type{sizeof type, nullptr, MORTISE_F32, 1, dims, nullptr, nullptr};
  const MortiseType *found = nullptr;
  MortiseBuilder *made = nullptr;
  MortiseProgram *compiled = nullptr;
  const MortiseRefusal *const *refusals = nullptr;
  size_t count = 0;
  char *text = nullptr;
  MortiseStatus *statuses[] = {
      mortise_session_create(nullptr, 0, nullptr),
      mortise_session_describe(nullptr, &text),
      mortise_session_describe(s.get(), nullptr),
      mortise_builder_create(nullptr, "a", &made),
      mortise_builder_create(s.get(), "a", nullptr),
      mortise_builder_input(nullptr, "x", &type, 0, &value),
      mortise_builder_input(graph.get(), "x", nullptr, 0, &value),
      mortise_builder_input(graph.get(), "x", &type, 0, nullptr),
      mortise_builder_op(nullptr, "mortise.neg", &value, 1, nullptr, 0, nullptr, &value, 1, nullptr),
      mortise_builder_op(graph.get(), nullptr, &value, 1, nullptr, 0, nullptr, &value, 1, nullptr),
      mortise_builder_op(graph.get(), "mortise.neg", nullptr, 1, nullptr, 0, nullptr, &value, 1, nullptr),
      mortise_builder_op(graph.get(), "mortise.neg", &value, 1, nullptr, 2, nullptr, &value, 1, nullptr),
      mortise_builder_type(nullptr, 0, &found),
      mortise_builder_type(graph.get(), 0, nullptr),
      mortise_builder_output(nullptr, 0, -1),
      mortise_builder_text(nullptr, &text),
      mortise_builder_text(graph.get(), nullptr),
      mortise_compile(nullptr, graph.get(), nullptr, 0, &compiled),
      mortise_compile(s.get(), nullptr, nullptr, 0, &compiled),
      mortise_compile(s.get(), graph.get(), nullptr, 0, nullptr),
      mortise_compile(s.get(), graph.get(), nullptr, 3, &compiled),
      mortise_builder_refusals(nullptr, &refusals, &count),
      mortise_builder_refusals(graph.get(), nullptr, &count),
      mortise_builder_refusals(graph.get(), &refusals, nullptr),
      mortise_program_bind(nullptr, nullptr, 0),
      mortise_program_run(nullptr, nullptr, 0, nullptr, 0),
      mortise_program_run(program.get(), nullptr, 2, nullptr, 1),
      mortise_program_run_pointers(nullptr, nullptr, nullptr, nullptr),
      mortise_program_run_pointers(program.get(), nullptr, nullptr, nullptr),
      mortise_program_profile(nullptr, nullptr, 0, nullptr, 0),
      mortise_program_report(nullptr, &text),
      mortise_program_report(program.get(), nullptr),
  };
  for (size_t i = 0; i < std::size(statuses); ++i) {
    EXPECT_EQ(mortise_status_code(statuses[i]), MORTISE_INVALID_ARGUMENT) << "call " << i;
    EXPECT_STRNE(mortise_status_message(statuses[i]), "") << "call " << i;
    mortise_status_destroy(statuses[i]);
  }
  mortise_session_destroy(nullptr);
  mortise_builder_destroy(nullptr);
  mortise_program_destroy(nullptr);
  mortise_string_destroy(nullptr);
  mortise_status_destroy(nullptr);
  EXPECT_EQ(mortise_status_code(nullptr), MORTISE_OK);
}

TEST(ApiErrors, BadTypesAreRefused) {
  Session s = session();
  Builder graph = builder(s);
  const int64_t good[] = {2, 3}, negative[] = {2, -3}, dynamic[] = {MORTISE_DYNAMIC, 1},
                huge[] = {INT64_MAX, INT64_MAX};
  const MortiseType types[] = {
      {0, nullptr, MORTISE_F32, 2, good, nullptr, nullptr},
      {sizeof(MortiseType), nullptr, 0, 2, good, nullptr, nullptr},
      {sizeof(MortiseType), nullptr, 99, 2, good, nullptr, nullptr},
      {sizeof(MortiseType), nullptr, MORTISE_F32, -1, good, nullptr, nullptr},
      {sizeof(MortiseType), nullptr, MORTISE_F32, 1 << 30, good, nullptr, nullptr},
      {sizeof(MortiseType), nullptr, MORTISE_F32, 2, nullptr, nullptr, nullptr},
      {sizeof(MortiseType), nullptr, MORTISE_F32, 2, negative, nullptr, nullptr},
      {sizeof(MortiseType), nullptr, MORTISE_F32, 2, dynamic, nullptr, nullptr},
      {sizeof(MortiseType), nullptr, MORTISE_F32, 2, huge, nullptr, nullptr},
  };
  for (const MortiseType &type : types) {
    uint32_t value = 0;
    const Result<void> added = take(mortise_builder_input(graph.get(), "x", &type, 0, &value));
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, MORTISE_INVALID_ARGUMENT);
  }
  EXPECT_FALSE(graph.input("x", MORTISE_F32, {2}, 99));
  EXPECT_FALSE(graph.input("x", MORTISE_F32, {2}, MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE));
  EXPECT_FALSE(graph.input("x", MORTISE_F32, {2}, MORTISE_VALUE_DONATED | MORTISE_VALUE_STATE));
  const uint32_t donated = get(graph.input("x", MORTISE_F32, {2}, MORTISE_VALUE_DONATED));
  EXPECT_FALSE(graph.output(get(graph.op("mortise.neg", {donated})), 0)) << "nobody would know what is in it";
}

TEST(ApiErrors, BadOpsNameWhatIsWrong) {
  Session s = session();
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {2, 3}));
  const uint32_t y = get(graph.input("y", MORTISE_F32, {3, 3}));
  EXPECT_FALSE(graph.op("mortise.nonsense", {x}));
  EXPECT_FALSE(graph.op("", {x}));
  EXPECT_FALSE(graph.op("mortise.add", {x}));
  EXPECT_FALSE(graph.op("mortise.add", {x, y}));
  EXPECT_FALSE(graph.op("mortise.add", {x, 77}));
  EXPECT_FALSE(graph.op("mortise.softmax", {x}));
  EXPECT_FALSE(graph.op("mortise.softmax", {x}, {{"axis", 9}}));
  EXPECT_FALSE(graph.op("mortise.softmax", {x}, {{"axis", "one"}}));
  EXPECT_FALSE(graph.op("mortise.softmax", {x}, {{"axes", 1}}));
  EXPECT_FALSE(graph.output(99));
  EXPECT_FALSE(graph.output(x, 99));
  const Result<uint32_t> mismatch = graph.op("mortise.add", {x, y}, {}, "model.py:7");
  ASSERT_FALSE(mismatch);
  EXPECT_NE(mismatch.error().message.find("model.py:7"), std::string::npos) << mismatch.error().message;
  MortiseAttribute broken{};
  broken.struct_size = sizeof broken;
  broken.name = "axis";
  for (int32_t kind :
       {0, 99, static_cast<int32_t>(MORTISE_ATTRIBUTE_STRING), static_cast<int32_t>(MORTISE_ATTRIBUTE_TENSOR)}) {
    broken.kind = kind;
    const MortiseAttribute *list[] = {&broken};
    uint32_t result = 0;
    const Result<void> added =
        take(mortise_builder_op(graph.get(), "mortise.softmax", &x, 1, list, 1, nullptr, &result, 1, nullptr));
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, MORTISE_INVALID_ARGUMENT);
  }
}

TEST(ApiErrors, ExtentsNameKnownSymbols) {
  Session s = session();
  Builder graph = builder(s);
  const int64_t dims[] = {MORTISE_DYNAMIC};
  const MortiseExprStep step{MORTISE_EXPR_SYMBOL, 0, 0};
  const MortiseExpr extent{&step, 1};
  const MortiseType type{sizeof type, nullptr, MORTISE_F32, 1, dims, &extent, nullptr};
  uint32_t x = 0;
  const Result<void> added = take(mortise_builder_input(graph.get(), "x", &type, 0, &x));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, MORTISE_INVALID_ARGUMENT);
  EXPECT_NE(added.error().message.find("names symbol 0 of 0"), std::string::npos) << added.error().message;
}

TEST(ApiErrors, EmptyGraphsAndSpentBuildersAreRefused) {
  Session s = session();
  Builder graph = builder(s);
  EXPECT_FALSE(s.compile(graph));
  const uint32_t x = get(graph.input("x", MORTISE_F32, {2}));
  expectOk(graph.output(get(graph.op("mortise.neg", {x}))));
  get(s.compile(graph));
  EXPECT_FALSE(s.compile(graph));                         // the builder is empty
  EXPECT_FALSE(graph.op("mortise.neg", {x}));             // its values no longer exist
  EXPECT_EQ(get(graph.input("x", MORTISE_F32, {2})), 0u); // a new graph begins
}

TEST(ApiErrors, BadTensorsAreRefused) {
  Session s = session();
  Program program = sample(s);
  Buffers b;
  expectOk(program.bind(b.inputs));
  const auto run = [&] { return program.run(b.inputs, b.outputs); };
  const MortiseTensor good = b.views[0], goodOut = b.views[2];
  const int64_t wrong[] = {8, 2};
  b.views[0].dtype = MORTISE_F64;
  EXPECT_FALSE(run());
  b.views[0] = good;
  b.views[0].rank = 1;
  EXPECT_FALSE(run());
  b.views[0] = good;
  b.views[0].dims = wrong;
  EXPECT_FALSE(run());
  b.views[0] = good;
  b.views[0].data = nullptr;
  EXPECT_FALSE(run());
  b.views[0] = good;
  b.views[0].struct_size = 8;
  EXPECT_FALSE(run());
  b.views[0] = good;
  b.views[2].data = nullptr;
  EXPECT_FALSE(run());
  b.views[2] = goodOut;
  EXPECT_FALSE(program.run({}, b.outputs));
  EXPECT_FALSE(program.run(b.inputs, {}));
  expectOk(run());
}

TEST(ApiErrors, UnknownDevicesAndOptionsNameTheNearest) {
  const Result<Session> bad = Session::create({{"devise", "cpu"}});
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("device"), std::string::npos);
  Session s = session();
  Builder graph = builder(s);
  expectOk(graph.output(get(graph.op("mortise.neg", {get(graph.input("x", MORTISE_F32, {2}))}))));
  const Result<Program> program = s.compile(graph, {{"device", "toaster"}});
  ASSERT_FALSE(program);
  EXPECT_NE(program.error().message.find("toaster"), std::string::npos);
  EXPECT_NE(program.error().message.find("reference"), std::string::npos) << program.error().message;
}

TEST(ApiErrors, UnmetRequirementsAreErrors) {
  Session s = session();
  Builder graph = builder(s);
  expectOk(graph.output(get(graph.op("mortise.neg", {get(graph.input("x", MORTISE_F32, {2}))}))));
  const Result<Program> program = s.compile(graph, {{"require", "95% on cpu"}});
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, MORTISE_UNSUPPORTED);
}

} // namespace
} // namespace mortise::api
