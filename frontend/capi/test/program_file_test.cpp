// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs that are saved and loaded again.
#include "helpers.hpp"

#include <zlib.h>

#include <cstring>
#include <fstream>

namespace mortise::api {
namespace {

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::string &path, const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// softmax((x + w) * 2) of x[n, 4], written to an output; x + w, written to the state.
Program compiled(Session &s) {
  Builder graph = builder(s);
  const Dim n = get(graph.symbol("n", 1, 64));
  const Dim dims[] = {n, Dim(4)};
  const uint32_t x = get(graph.symbolicInput("x", Type(MORTISE_F32, dims))),
                 state = get(graph.input("state", MORTISE_F32, {4}, MORTISE_VALUE_STATE)),
                 w = get(graph.input("w", MORTISE_F32, {4}, MORTISE_VALUE_CONSTANT));
  const uint32_t sum = get(graph.op("mortise.add", {state, w}));
  expectOk(graph.output(get(graph.op("mortise.softmax", {x}, {{"axis", 1}}))));
  expectOk(graph.output(sum, 1));
  return get(s.compile(graph));
}

std::vector<float> run(Program &program, int64_t rows) {
  std::vector<float> x(static_cast<size_t>(rows) * 4), y(x.size()), state = {1, 2, 3, 4}, w = {10, 20, 30, 40};
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = 0.3f * static_cast<float>(i % 7);
  const Tensor tx(x.data(), MORTISE_F32, {rows, 4}), ty(y.data(), MORTISE_F32, {rows, 4}),
      ts(state.data(), MORTISE_F32, {4}), tw(w.data(), MORTISE_F32, {4});
  const MortiseTensor vx = tx.view(), vy = ty.view(), vs = ts.view(), vw = tw.view();
  const MortiseTensor *inputs[] = {&vx, &vs, &vw}, *outputs[] = {&vy, nullptr};
  expectOk(program.bind(inputs));
  expectOk(program.run(inputs, outputs));
  y.insert(y.end(), state.begin(), state.end());
  return y;
}

TEST(ProgramFile, WhatIsLoadedComputesTheSame) {
  const Folder folder;
  Session s = session();
  Program made = compiled(s);
  expectOk(made.save(folder / "program.mrtp"));
  Session other = session();
  Program loaded = get(other.load(folder / "program.mrtp"));
  for (int64_t rows : {3, 5}) {
    const std::vector<float> expected = run(made, rows), found = run(loaded, rows);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(std::vector<float>(found.end() - 4, found.end()), (std::vector<float>{11, 22, 33, 44}));
  }
  const Json before = Json::parse(get(made.report())), after = Json::parse(get(loaded.report()));
  EXPECT_EQ(after["placement"][0]["ops"], before["placement"][0]["ops"]);
}

TEST(ProgramFile, SavingAgainReplacesTheFile) {
  const Folder folder;
  Session s = session();
  Program made = compiled(s);
  write(folder / "program.mrtp", "old");
  expectOk(made.save(folder / "program.mrtp"));
  const std::string first = contents(folder / "program.mrtp");
  expectOk(get(s.load(folder / "program.mrtp")).save(folder / "program.mrtp"));
  EXPECT_EQ(contents(folder / "program.mrtp").size(), first.size());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1) << "no other file is left";
  const Result<void> nowhere = made.save(folder / "no/such/folder.mrtp");
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find("no/such/folder.mrtp: cannot be written"), std::string::npos);
}

TEST(ProgramFile, DamageIsFound) {
  const Folder folder;
  Session s = session();
  expectOk(compiled(s).save(folder / "good.mrtp"));
  const std::string good = contents(folder / "good.mrtp"), bad = folder / "bad.mrtp";
  ASSERT_GT(good.size(), 200u);
  const auto refused = [&](const std::string &bytes, const std::string &what) {
    write(bad, bytes);
    const Result<Program> loaded = s.load(bad);
    EXPECT_FALSE(loaded) << what;
    EXPECT_TRUE(loaded || loaded.error().code == MORTISE_CORRUPT || loaded.error().code == MORTISE_VERSION_MISMATCH)
        << what << ": " << loaded.error().message;
    return loaded ? "" : loaded.error().message;
  };
  for (size_t size = 0; size < good.size(); size += 7)
    refused(good.substr(0, size), "cut to " + std::to_string(size));
  refused(good + "x", "longer");
  for (size_t at = 0; at < good.size(); at += 5) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    refused(damaged, "byte " + std::to_string(at));
  }
  std::string later = good;
  later[8] = 9;
  EXPECT_NE(refused(later, "a later format").find("format 9"), std::string::npos);
  EXPECT_NE(refused("not a program at all, but long enough", "text").find("MRTPROG"), std::string::npos);
  for (const std::string &path : {folder / "missing.mrtp", folder.path.string(), std::string("/dev/zero")}) {
    const Result<Program> loaded = s.load(path);
    ASSERT_FALSE(loaded);
    const bool missing = path.ends_with("missing.mrtp");
    EXPECT_EQ(loaded.error().code, missing ? MORTISE_NOT_FOUND : MORTISE_INVALID_ARGUMENT) << path;
    EXPECT_NE(loaded.error().message.find(path), std::string::npos) << loaded.error().message;
  }
}

// Whoever forges a file can make its checksum agree. Loading gives an answer, whatever it is.
TEST(ProgramFile, DamageWithAValidChecksumIsAnsweredToo) {
  constexpr size_t header = 24, checksum = 12;
  const Folder folder;
  Session s = session();
  expectOk(compiled(s).save(folder / "good.mrtp"));
  const std::string good = contents(folder / "good.mrtp"), bad = folder / "bad.mrtp";
  size_t refused = 0;
  for (size_t at = header; at < good.size(); ++at)
    for (const int flipped : {0x01, 0x80, 0xff}) {
      std::string forged = good;
      forged[at] = static_cast<char>(forged[at] ^ flipped);
      const auto sum = static_cast<uint32_t>(
          crc32_z(0, reinterpret_cast<const Bytef *>(forged.data()) + header, forged.size() - header));
      std::memcpy(&forged[checksum], &sum, sizeof sum);
      write(bad, forged);
      const Result<Program> loaded = s.load(bad);
      refused += !loaded;
      if (!loaded) {
        EXPECT_EQ(loaded.error().message.find("its checksum"), std::string::npos) << "the test forges no checksum";
      }
    }
  EXPECT_GT(refused, good.size());
}

TEST(ProgramFile, NullsAreRefused) {
  Session s = session();
  Program made = compiled(s);
  MortiseProgram *program = nullptr;
  for (MortiseStatus *status :
       {mortise_program_signature(nullptr, nullptr), mortise_program_signature(made.get(), nullptr),
        mortise_program_save(nullptr, "x"), mortise_program_save(made.get(), nullptr),
        mortise_program_load(nullptr, "x", nullptr, 0, &program),
        mortise_program_load(s.get(), nullptr, nullptr, 0, &program),
        mortise_program_load(s.get(), "x", nullptr, 0, nullptr),
        mortise_program_load(s.get(), "x", nullptr, 2, &program)}) {
    EXPECT_EQ(mortise_status_code(status), MORTISE_INVALID_ARGUMENT);
    mortise_status_destroy(status);
  }
}

} // namespace
} // namespace mortise::api
