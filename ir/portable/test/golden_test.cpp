// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// golden/ holds files of earlier versions. Every file must be readable, and must compute the recorded results:
// golden/NAME.results has a line per node, the hash of the reference interpreter's results on fixed inputs.
// golden/SHA256SUMS has the checksum of every file. MORTISE_TEST_WRITE_GOLDEN=1 writes missing files and adds their
// checksums; it never rewrites a file.
#include "../changes.hpp"
#include "samples.hpp"
#include "sha256.hpp"
#include <mortise/portable/graph.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>

using namespace mortise;
using namespace mortise::test;
namespace files = std::filesystem;

namespace {

const std::string portableFolder = MORTISE_PORTABLE_DIRECTORY, folder = portableFolder + "/golden";
bool isWriting() { return std::getenv("MORTISE_TEST_WRITE_GOLDEN") != nullptr; }

std::string slurp(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::span<const std::byte> bytesOf(const std::string &text) { return std::as_bytes(std::span(text)); }

std::vector<std::string> goldenNames() {
  std::vector<std::string> names;
  for (const auto &entry : files::directory_iterator(folder))
    if (entry.path().extension() == ".mrtg")
      names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

uint64_t mix(uint64_t value) { // splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

// Multiples of 1/8 from -2 to 2, integers from 0 to 2.
std::vector<char> numbered(const MortiseType &type, size_t operand) {
  std::vector<char> bytes(byteSize(type) + 8); // data() is never NULL
  if (type.dtype == MORTISE_I4) {
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<char>(mix(operand << 32 | i) & 0x11);
    return bytes;
  }
  for (size_t i = 0; i < static_cast<size_t>(elementCount(type)); ++i) {
    const uint64_t random = mix(operand << 32 | i);
    reference::visitElement(type.dtype, [&]<typename T>(T) {
      const double value = T::isFloat ? (static_cast<double>(random % 33) - 16) / 8 : static_cast<double>(random % 3);
      const auto stored = T::store(static_cast<typename T::Compute>(value));
      std::memcpy(&bytes[i * sizeof stored], &stored, sizeof stored);
    });
  }
  return bytes;
}

// FNV-1a; all NaNs hash alike.
uint64_t hash(const MortiseType &type, const char *bytes, uint64_t seed) {
  std::vector<char> plain(bytes, bytes + byteSize(type));
  for (size_t i = 0; isFloat(type.dtype) && i < static_cast<size_t>(elementCount(type)); ++i)
    reference::visitFloat(type.dtype, [&]<typename T>(T) {
      typename T::Storage stored;
      std::memcpy(&stored, &plain[i * sizeof stored], sizeof stored);
      if (std::isnan(T::load(stored)))
        stored = T::store(std::numeric_limits<double>::quiet_NaN());
      std::memcpy(&plain[i * sizeof stored], &stored, sizeof stored);
    });
  for (const char byte : plain)
    seed = (seed ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return seed;
}

// The number of ranks of a collective; 1 for other ops.
size_t rankCount(const MortiseNode &node) {
  const size_t groups = intsAttribute(node, "groups").size();
  return std::max({groups, static_cast<size_t>(intAttribute(node, "rank_count")), size_t(1)});
}

// The hash of one node's results, or "-" and the reason why the interpreter does not run it.
std::string result(const MortiseGraph &graph, uint32_t node) {
  auto region = extractRegion(graph, std::span(&node, 1));
  if (!region)
    return "- " + region.error().message;
  MortiseGraph view = region->graph->view();
  view.outputs = view.nodes[0]->results; // also those that nothing uses
  view.output_count = view.nodes[0]->result_count;
  const size_t ranks = rankCount(*view.nodes[0]);
  std::vector<std::vector<char>> buffers; // own the memory that the pointers below refer to
  std::vector<std::vector<const void *>> inputs(ranks);
  std::vector<std::vector<void *>> outputs(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < view.input_count; ++i)
      inputs[rank].push_back(buffers.emplace_back(numbered(*view.inputs[i]->type, i + 16 * rank)).data());
    for (size_t i = 0; i < view.output_count; ++i)
      outputs[rank].push_back(buffers.emplace_back(byteSize(*view.outputs[i]->type) + 8).data());
  }
  if (auto run = reference::interpretRanks(view, inputs, outputs); !run)
    return "- " + run.error().message;
  uint64_t seed = 0xcbf29ce484222325;
  for (const auto &rank : outputs)
    for (size_t i = 0; i < view.output_count; ++i)
      seed = hash(*view.outputs[i]->type, static_cast<const char *>(rank[i]), seed);
  std::ostringstream text;
  text << std::hex << seed;
  return text.str();
}

// Specialises the graph: each symbol gets its smallest value of at least 4, for which guards of sizes hold.
std::shared_ptr<const Graph> withoutSymbols(const std::shared_ptr<const Graph> &graph) {
  const MortiseGraph &view = graph->view();
  std::vector<int64_t> symbols;
  for (size_t i = 0; i < view.symbol_count; ++i) {
    const MortiseSymbol &symbol = *view.symbols[i];
    const int64_t least = std::max<int64_t>(symbol.min, 4), divisor = symbol.divisor;
    symbols.push_back(std::min((least + divisor - 1) / divisor * divisor, symbol.max));
  }
  auto fixed = specialise(view, symbols);
  EXPECT_TRUE(fixed) << fixed.error().message;
  return fixed ? *fixed : nullptr;
}

std::string results(const MortiseGraph &graph) {
  std::string text;
  for (uint32_t i = 0; i < graph.node_count; ++i)
    text += std::string(graph.nodes[i]->op) + " " + result(graph, i) + "\n";
  return text;
}

void writeOnce(const std::string &path, std::string_view bytes) {
  if (isWriting() && !files::exists(path))
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::map<std::string, std::string> sums() {
  std::map<std::string, std::string> result;
  std::ifstream file(folder + "/SHA256SUMS");
  for (std::string sum, name; file >> sum >> name;)
    result[name] = sum;
  return result;
}

void collectOps(const MortiseGraph &graph, std::set<std::string> &ops) {
  for (size_t i = 0; i < graph.node_count; ++i) {
    ops.insert(graph.nodes[i]->op);
    for (size_t j = 0; j < graph.nodes[i]->body_count; ++j)
      collectOps(*graph.nodes[i]->bodies[j], ops);
  }
}

// v1 and v2 contain every construct of the format; not all of their ops exist.
bool isOfTheFormat(const std::string &name) { return name[0] == 'v'; }

class Golden : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(File, Golden, testing::ValuesIn(goldenNames()), [](const auto &info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

} // namespace

TEST_P(Golden, IsReadAndMeansWhatItMeant) {
  const std::string bytes = slurp(folder + "/" + GetParam() + ".mrtg");
  auto graph = isOfTheFormat(GetParam()) ? Graph::read(bytesOf(bytes)) : Graph::load(bytesOf(bytes));
  ASSERT_TRUE(graph) << graph.error().message;
  // Writing and reading it again gives the same graph.
  auto again = Graph::copy((*graph)->view());
  ASSERT_TRUE(again) << again.error().message;
  auto third = Graph::read((*again)->bytes());
  ASSERT_TRUE(third);
  EXPECT_TRUE(std::ranges::equal((*Graph::copy((*third)->view()))->bytes(), (*again)->bytes()));
  if (isOfTheFormat(GetParam()))
    return;
  auto fixed = withoutSymbols(*graph);
  ASSERT_TRUE(fixed);
  const std::string path = folder + "/" + GetParam() + ".results", now = results(fixed->view());
  writeOnce(path, now);
  EXPECT_EQ(now, slurp(path)) << "an op computes something else than when " << GetParam() << " was written";
}

// A graph that an older format version can express is still written in that version, byte for byte.
TEST(GoldenFormat, IsStillWritten) {
  ViewBuilder b;
  everything(b);
  EverythingNew newer;
  const std::pair<const char *, const MortiseGraph *> samples[] = {{"/v1.mrtg", &b.view()},
                                                                   {"/v2.mrtg", &newer.view()}};
  for (const auto &[name, view] : samples) {
    auto now = Graph::copy(*view);
    ASSERT_TRUE(now) << now.error().message;
    const auto bytes = (*now)->bytes();
    writeOnce(folder + name, {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
    EXPECT_TRUE(std::ranges::equal(bytesOf(slurp(folder + name)), bytes)) << name;
  }
}

TEST(GoldenSums, NothingThatWasCommittedChanged) {
  std::map<std::string, std::string> known = sums();
  if (isWriting()) {
    std::ofstream list(folder + "/SHA256SUMS", std::ios::app);
    for (const auto &entry : files::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name != "SHA256SUMS" && known.try_emplace(name, sha256(bytesOf(slurp(entry.path().string())))).second)
        list << known[name] << "  " << name << "\n";
    }
  }
  ASSERT_FALSE(known.empty());
  for (const auto &[name, sum] : known)
    EXPECT_EQ(sha256(bytesOf(slurp((files::path(folder) / name).string()))), sum)
        << name << " changed; restore it: golden files never do";
  for (const auto &entry : files::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "SHA256SUMS" || known.contains(name)) << name << " is not in SHA256SUMS";
  }
}

TEST(GoldenSums, TheHashIsSha256) {
  EXPECT_EQ(sha256(bytesOf("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// Each op of a released opset occurs in a golden file of that opset.
TEST(GoldenSums, EveryOpOfEveryReleasedSetIsThere) {
  for (uint32_t opset = 1;; ++opset) {
    const std::string record = portableFolder + "/opset/" + std::to_string(opset) + ".txt";
    if (!files::exists(record)) {
      EXPECT_GT(opset, 1u);
      return;
    }
    std::set<std::string> ops;
    const std::string prefix = "opset" + std::to_string(opset) + "-";
    for (const std::string &name : goldenNames())
      if (name.starts_with(prefix)) {
        auto graph = Graph::read(bytesOf(slurp((files::path(folder) / (name + ".mrtg")).string())));
        ASSERT_TRUE(graph) << name;
        EXPECT_EQ((*graph)->view().opset, opset) << name;
        collectOps((*graph)->view(), ops);
      }
    for (const portable::Op &op : portable::parseOps(slurp(record)))
      EXPECT_TRUE(ops.contains(op.name) || op.since < opset)
          << op.name << " is in no golden/opset" << opset << "-*.mrtg";
  }
}
