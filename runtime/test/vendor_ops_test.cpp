// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that plugins declare: what is wrong with a declaration, who declares an op, and what its infer may answer.
#include "fixtures.hpp"

#include "loader.hpp"
#include <mortise/symbols.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace mortise::runtime::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <typename T> T *nowhere() { return reinterpret_cast<T *>(uintptr_t{0x1230}); }

// A table that declares acme.swizzle(x) {axis: i64, by: f64 = 2}.
struct Declaring {
  MortiseAttribute by{};
  MortiseAttributeDeclaration attributes[2]{};
  const MortiseAttributeDeclaration *attributeList[2] = {&attributes[0], &attributes[1]};
  MortiseOpDeclaration ops[2]{};
  const MortiseOpDeclaration *list[2] = {&ops[0], &ops[1]};
  MortisePlugin table{};
  Manifest manifest;

  Declaring() {
    by.struct_size = sizeof by;
    by.name = "by";
    by.kind = MORTISE_ATTRIBUTE_F64;
    by.f64 = 2;
    attributes[0] = {sizeof attributes[0], nullptr, "axis", MORTISE_ATTRIBUTE_I64, 0, nullptr};
    attributes[1] = {sizeof attributes[1], nullptr, "by", MORTISE_ATTRIBUTE_F64, 0, &by};
    ops[0] = {sizeof ops[0], nullptr, "acme.swizzle", "mixes x", 1, 1, attributeList, 2};
    ops[1] = ops[0];
    ops[1].name = "acme.swirl";
    table.ops = list;
    table.op_count = 1;
    table.infer = [](MortiseInferArgs *) -> MortiseStatus * { return nullptr; };
    manifest.ops = {"acme.swizzle"};
  }
  std::string wrong() {
    const Result<void> checked = checkOps(table, manifest);
    return checked ? "" : checked.error().message;
  }
};

TEST(VendorOps, AGoodDeclaration) {
  Declaring plugin;
  EXPECT_EQ(plugin.wrong(), "");
  plugin.table.op_count = 2;
  plugin.manifest.ops = {"acme.swirl", "acme.swizzle"};
  EXPECT_EQ(plugin.wrong(), "");
}

struct Wrong {
  const char *name;
  std::function<void(Declaring &)> plant;
  const char *said;
};
void PrintTo(const Wrong &wrong, std::ostream *out) { *out << wrong.name; }

class WrongDeclaration : public testing::TestWithParam<Wrong> {};

TEST_P(WrongDeclaration, IsRefusedWithWords) {
  Declaring plugin;
  GetParam().plant(plugin);
  EXPECT_THAT(plugin.wrong(), HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    VendorOps, WrongDeclaration,
    testing::Values(
        Wrong{"no_dot", [](Declaring &p) { p.ops[0].name = "swizzle"; },
              "expected a name such as \"acme.swizzle\", the vendor's word, a dot and the op's, of a-z, 0-9 and '_', "
              "found 'swizzle'"},
        Wrong{"ours", [](Declaring &p) { p.ops[0].name = "mortise.swizzle"; }, "found 'mortise.swizzle'"},
        Wrong{"capitals", [](Declaring &p) { p.ops[0].name = "Acme.swizzle"; }, "found 'Acme.swizzle'"},
        Wrong{"two_dots", [](Declaring &p) { p.ops[0].name = "acme.swizzle.fast"; }, "found 'acme.swizzle.fast'"},
        Wrong{"digit_first", [](Declaring &p) { p.ops[0].name = "acme.2d"; }, "found 'acme.2d'"},
        Wrong{"no_name", [](Declaring &p) { p.ops[0].name = nullptr; }, "found none"},
        Wrong{"garbage_name", [](Declaring &p) { p.ops[0].name = nowhere<const char>(); }, "found none"},
        Wrong{"no_summary", [](Declaring &p) { p.ops[0].summary = nullptr; },
              "its op 'acme.swizzle': expected a summary of one line"},
        Wrong{"short", [](Declaring &p) { p.ops[0].struct_size = 8; }, "op 0 of its table: expected a MortiseOp"},
        Wrong{"garbage_op", [](Declaring &p) { p.list[0] = nowhere<const MortiseOpDeclaration>(); },
              "an address where none can be read"},
        Wrong{"garbage_list", [](Declaring &p) { p.table.ops = nowhere<const MortiseOpDeclaration *const>(); },
              "found 1 that cannot be read"},
        Wrong{"too_many", [](Declaring &p) { p.table.op_count = SIZE_MAX; }, "expected a list of at most 4096 ops"},
        Wrong{"twice", [](Declaring &p) { p.list[1] = p.list[0], p.table.op_count = 2; },
              "its op 'acme.swizzle' is declared twice"},
        Wrong{"operands", [](Declaring &p) { p.ops[0].operands_min = 2; }, "found 2 and 1"},
        Wrong{"no_infer", [](Declaring &p) { p.table.infer = nullptr; }, "expected the slot infer with its ops"},
        Wrong{"no_ops", [](Declaring &p) { p.table.op_count = 0; }, "found op_count 0"},
        Wrong{"garbage_infer",
              [](Declaring &p) {
                p.table.infer = reinterpret_cast<MortiseStatus *(*)(MortiseInferArgs *)>(uintptr_t{0x1230});
              },
              "expected slot infer to point to a function"},
        Wrong{"unlisted", [](Declaring &p) { p.manifest.ops.clear(); },
              "to list the ops of its table (acme.swizzle), found none"},
        Wrong{"listed_only", [](Declaring &p) { p.manifest.ops.emplace_back("acme.swirl"); },
              "found acme.swirl, acme.swizzle"},
        Wrong{"garbage_attributes",
              [](Declaring &p) { p.ops[0].attributes = nowhere<const MortiseAttributeDeclaration *const>(); },
              "expected a list of at most 256 attributes, found 2 that cannot be read"},
        Wrong{"garbage_attribute",
              [](Declaring &p) { p.attributeList[1] = nowhere<const MortiseAttributeDeclaration>(); },
              "attribute 1: expected a MortiseAttributeDeclaration"},
        Wrong{"unsorted", [](Declaring &p) { p.attributes[0].name = "zeal"; },
              "attribute 'by': expected attributes sorted by name, each once, found it behind 'zeal'"},
        Wrong{"attribute_kind", [](Declaring &p) { p.attributes[0].kind = 8; }, "found 8"},
        Wrong{"attribute_name", [](Declaring &p) { p.attributes[0].name = ""; }, "attribute 0: expected a name"},
        Wrong{"fallback_kind", [](Declaring &p) { p.by.kind = MORTISE_ATTRIBUTE_I64; },
              "expected a fallback of its name and kind, found 'by', an integer"},
        Wrong{"fallback_name", [](Declaring &p) { p.by.name = "buy"; }, "found 'buy', a float"},
        Wrong{"fallback_tensor", [](Declaring &p) { p.by.kind = p.attributes[1].kind = MORTISE_ATTRIBUTE_TENSOR; },
              "expected a fallback that is no tensor"},
        Wrong{"fallback_text", [](Declaring &p) { p.by.kind = p.attributes[1].kind = MORTISE_ATTRIBUTE_STRING; },
              "expected a value of its fallback, found memory that cannot be read"},
        Wrong{"fallback_garbage", [](Declaring &p) { p.attributes[1].fallback = nowhere<const MortiseAttribute>(); },
              "expected its fallback to be a MortiseAttribute"}),
    [](const auto &info) { return info.param.name; });

// ---- Who declares an op

std::string manifestOf(const std::string &name, const std::string &op = "acme.answer") {
  return "ops = [\"" + op + "\"]\n" + Folder::manifestFor(name);
}

TEST(VendorOps, AnOpLoadsItsPluginAndNoOther) {
  Folder folder;
  folder.add("ops", manifestOf("ops"));
  std::string alone = Folder::manifestFor("fixture"); // or it would be loaded for the device that it may share
  alone.erase(alone.find("same_as"), alone.find("[options") - alone.find("same_as"));
  folder.add("good", alone);
  const auto registry = openFrom(folder.path());
  EXPECT_TRUE(registry->plugins().empty());
  const auto found = registry->declaration("acme.answer");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_STREQ((*found)->name, "acme.answer");
  ASSERT_EQ(registry->plugins().size(), 1u);
  EXPECT_EQ(registry->plugins()[0]->name, "ops");
}

TEST(VendorOps, WhatNobodyDeclares) {
  Folder folder;
  folder.add("ops", manifestOf("ops"));
  const auto error = openFrom(folder.path())->declaration("acme.anser").error();
  EXPECT_EQ(error.code, MORTISE_UNSUPPORTED);
  EXPECT_THAT(error.message, HasSubstr("no installed plugin declares the op 'acme.anser'; the nearest known is "
                                       "'acme.answer'; install its vendor's"));
}

TEST(VendorOps, ARejectedPluginIsNamed) {
  Folder folder;
  folder.add("ops", manifestOf("ops", "acme.question"));
  const auto registry = openFrom(folder.path());
  EXPECT_THAT(
      registry->declaration("acme.question").error().message,
      AllOf(HasSubstr("whose manifest lists it, was rejected: "), HasSubstr("(acme.answer), found acme.question")));
}

TEST(VendorOps, AManifestsListIsChecked) {
  for (const char *line : {"ops = \"acme.answer\"\n", "ops = [\"mortise.add\"]\n", "ops = [\"answer\"]\n"}) {
    Folder folder;
    folder.add("ops", line + Folder::manifestFor("ops"));
    EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), HasSubstr("expected ops = [\"vendor.op\", ...]")) << line;
  }
}

TEST(VendorOps, SeveralPluginsMayDeclareAnOpAlike) {
  Folder folder;
  folder.add("ops", manifestOf("ops"));
  folder.add("same_ops", manifestOf("same"));
  const auto registry = openFrom(folder.path());
  ASSERT_TRUE(registry->declaration("acme.answer"));
  EXPECT_EQ(registry->plugins().size(), 2u) << "they are loaded together";
  EXPECT_TRUE(registry->rejected().empty());
}

TEST(VendorOps, ContradictionsRejectTheSecondPlugin) {
  Folder folder;
  const std::string first = folder.add("ops", manifestOf("ops")), second = folder.add("other_ops", manifestOf("other"));
  for (const std::string &asked : {std::string("ops"), std::string("other")}) { // whatever is asked for first
    const auto registry = openFrom(first + ":" + second);
    (void)registry->find(asked);
    EXPECT_THAT(onlyRejection(*registry), AllOf(HasSubstr("its op 'acme.answer' is not that of plugin 'ops'"),
                                                HasSubstr("they differ in attribute 'times'")));
    ASSERT_EQ(registry->plugins().size(), 1u);
    EXPECT_EQ(registry->plugins()[0]->name, "ops");
  }
}

std::shared_ptr<Registry> openIsolated(const std::string &path) {
  const MortiseOption options[] = {{"plugin_path", path.c_str()},
                                   {"log_level", "off"},
                                   {"kernel_cache", "off"},
                                   {"isolate", "on"},
                                   {"isolate_seconds", "1"}};
  const auto config = Config::read(options);
  EXPECT_TRUE(config);
  return Registry::open(*config);
}

TEST(VendorOps, AnIsolatedPluginsDeclarationsAreThoseOfItsLibrary) {
  Folder folder, other;
  const auto registry = openFrom(folder.add("ops", manifestOf("ops"))),
             isolated = openIsolated(other.add("ops", manifestOf("ops")));
  const auto one = registry->declaration("acme.answer"), two = isolated->declaration("acme.answer");
  ASSERT_TRUE(one && two) << (two ? one : two).error().message;
  ASSERT_TRUE(isolated->plugins()[0]->isolated);
  EXPECT_EQ(portable::difference(**one, **two), "");
  EXPECT_STREQ((*two)->summary, (*one)->summary);
  ASSERT_EQ((*two)->attribute_count, 2u);
  EXPECT_EQ((*two)->attributes[0]->fallback, nullptr);
  EXPECT_EQ((*two)->attributes[1]->fallback->i64, 1);
}

TEST(VendorOps, AnIsolatedPluginsContradictionsRejectIt) {
  Folder folder;
  const std::string first = folder.add("ops", manifestOf("ops")), second = folder.add("other_ops", manifestOf("other"));
  const auto registry = openIsolated(first + ":" + second);
  (void)registry->declaration("acme.answer");
  EXPECT_THAT(onlyRejection(*registry), HasSubstr("they differ in attribute 'times'"));
  Folder unlisted;
  const auto without = openIsolated(unlisted.add("ops", Folder::manifestFor("ops")));
  without->loadAll();
  EXPECT_THAT(onlyRejection(*without), HasSubstr("(acme.answer), found none"));
}

// ---- What infer answers

struct Inferring {
  bool symbolic = false;
  std::vector<MortiseType> types{};         // whose lists are gone
  std::vector<std::vector<int64_t>> dims{}; // with n = 10 where an extent is symbolic
};

std::string inferred(const Registry &registry, const std::string &how, Inferring *into = nullptr) {
  const MortiseExprStep step{MORTISE_EXPR_SYMBOL, 0, 0};
  const MortiseExpr programs[] = {{&step, 1}, {&step, 1}};
  const MortiseSymbol symbol{sizeof(MortiseSymbol), nullptr, "n", 0, 100, 2};
  const MortiseSymbol *symbols[] = {&symbol};
  const bool symbolic = into && into->symbolic;
  const int64_t dims[] = {symbolic ? MORTISE_DYNAMIC : 3, symbolic ? MORTISE_DYNAMIC : 4};
  MortiseType x{sizeof(MortiseType), nullptr, MORTISE_F32, 2, dims, symbolic ? programs : nullptr, nullptr, nullptr};
  MortiseAttribute attribute{};
  attribute.struct_size = sizeof attribute;
  attribute.name = "how";
  attribute.kind = MORTISE_ATTRIBUTE_STRING;
  attribute.string = how.c_str();
  const MortiseType *operands[] = {&x};
  const MortiseAttribute *attributes[] = {&attribute};
  MortiseInferArgs args{sizeof(MortiseInferArgs), nullptr, "acme.answer", operands, 1, attributes, 1, symbols,
                        symbolic ? 1u : 0u,       nullptr, nullptr};
  Inferring seen;
  args.sink = &seen;
  args.add = [](void *sink, const MortiseType *type) {
    Inferring &seen = *static_cast<Inferring *>(sink);
    std::vector<int64_t> &dims = seen.dims.emplace_back(type->dims, type->dims + type->rank);
    const int64_t values[] = {10};
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] == MORTISE_DYNAMIC)
        dims[i] = *evaluate(type->dim_exprs[i], values);
    seen.types.push_back(*type);
  };
  const Result<void> asked = registry.infer(args);
  if (into)
    *into = seen;
  return asked ? "" : asked.error().message;
}

class Infer : public testing::TestWithParam<bool> { // whether the plugin is isolated
protected:
  std::shared_ptr<Registry> open() {
    folder.add("ops", manifestOf("ops"));
    return GetParam() ? openIsolated(folder.path()) : openFrom(folder.path());
  }
  Folder folder;
};
INSTANTIATE_TEST_SUITE_P(VendorOps, Infer, testing::Bool(),
                         [](const auto &info) { return info.param ? "Isolated" : "InProcess"; });

TEST_P(Infer, GivesTypes) {
  const auto registry = open();
  Inferring seen;
  EXPECT_EQ(inferred(*registry, "right", &seen), "");
  ASSERT_EQ(seen.types.size(), 1u);
  EXPECT_EQ(seen.types[0].dtype, MORTISE_F32);
  EXPECT_EQ(seen.dims[0], (std::vector<int64_t>{3, 4}));
  seen.symbolic = true;
  EXPECT_EQ(inferred(*registry, "half", &seen), "");
  ASSERT_EQ(seen.types.size(), 1u);
  EXPECT_NE(seen.types[0].dim_exprs, nullptr);
  EXPECT_EQ(seen.dims[0], std::vector<int64_t>{5});
}

TEST_P(Infer, RefusesWithWords) {
  EXPECT_EQ(inferred(*open(), "refuse"), "acme.answer: plugin 'ops': expected a question of another kind");
}

TEST(VendorOps, AFaultInInferOfAnIsolatedPluginIsAnErrorThatNamesTheSlot) {
  Folder folder;
  folder.add("ops", manifestOf("ops"));
  const auto registry = openIsolated(folder.path());
  EXPECT_EQ(inferred(*registry, "right"), "");
  EXPECT_THAT(inferred(*registry, "abort"),
              HasSubstr("acme.answer: plugin 'ops': its worker was ended by SIGABRT in infer; report this"));
  EXPECT_THAT(inferred(*registry, "loop"), HasSubstr("its worker gave no answer within 1 s and was ended in infer"));
  for (int i = 0; i < 5; ++i) // without a worker for each
    EXPECT_THAT(inferred(*registry, "abort"), HasSubstr("its worker ended in infer with these operands before"));
  EXPECT_EQ(inferred(*registry, "right"), "") << "the next worker answers";
}

TEST_P(Infer, Lies) {
  const auto registry = open();
  for (const auto &[how, said] : std::vector<std::pair<const char *, const char *>>{
           {"nothing", "expected at least one result, found none"},
           {"many", "expected at most 16 results, found more"},
           {"address", "result 0: expected a MortiseType, found an address where none can be read"},
           {"rank", "result 0: expected a rank of 0 to 32, found 99"},
           {"extents", "result 0: expected 3 extents, found memory that cannot be read"},
           {"strides", "result 0: expected a dense row-major type, found strides"},
           {"program", "result 0: expected the steps of an extent's program"}})
    EXPECT_THAT(inferred(*registry, how),
                AllOf(HasSubstr(" infers is wrong: "), HasSubstr("plugin 'ops'"), HasSubstr(said)))
        << how;
}

} // namespace
} // namespace mortise::runtime::test
