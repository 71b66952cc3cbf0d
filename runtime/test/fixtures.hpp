// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folders with fixture plugins, and plans written by hand.
#pragma once

#include <mortise/runtime/plan_generated.h>
#include <mortise/runtime/program.hpp>
#include <mortise/runtime/registry.hpp>

#include <mortise/bounds.hpp>

#include <filesystem>
#include <string>

namespace mortise::runtime::test {

// A fresh folder that only its owner may write to; removed at the end.
class Folder {
public:
  static std::string manifestFor(const std::string &name, const std::string &devices = "");

  Folder();
  ~Folder();
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;

  // Copies fixture `name` to libNAME.so beside a manifest. Returns the library's path.
  std::string add(const std::string &fixture, const std::string &manifest = manifestFor("fixture"));
  std::string write(const std::string &file, const std::string &content);
  std::string path() const { return where.string(); }

private:
  std::filesystem::path where;
};

// `cache`: the setting kernel_cache.
std::shared_ptr<Registry> openFrom(const std::string &pluginPath, const std::string &cache = "off",
                                   const std::string &owners = "");
// openFrom, and every plugin loaded.
std::shared_ptr<Registry> loadFrom(const std::string &pluginPath, const std::string &cache = "off");
// the rejection's message; fails the test unless there is exactly one
std::string onlyRejection(const Registry &registry);

// A plan of sums over f32[dims] as the fixture plugins compute them.
class PlanMaker {
public:
  explicit PlanMaker(std::vector<int64_t> dims) : PlanMaker(std::vector<Dim>(dims.begin(), dims.end()), {}) {}
  // A plan over symbols, whose values come from input 0. Constants are then f32[4096].
  explicit PlanMaker(std::vector<Dim> extents, const std::vector<std::pair<std::string, SymbolRange>> &symbols);

  uint32_t input(bool constant = false, bool state = false);
  uint32_t donated(); // an input that may be overwritten
  uint32_t within(uint32_t buffer, int32_t dtype,
                  std::vector<Dim> extents);       // an arena buffer that shares the memory of `buffer`
  uint32_t input(const std::vector<Dim> &extents); // an input with another shape, which no region reads
  void guard(const Dim &dim, MortiseRelation relation, const std::string &reason);
  uint32_t output(int64_t alias = -1);
  uint32_t arena(uint32_t space = 0);
  uint32_t literal(float value);
  uint32_t addSpace(const std::string &device);
  // A region with one node; returns its number.
  uint32_t region(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs, const std::string &device = "fixture",
                  const std::string &plugin = "fixture");
  // The same, and its graph marks these of its inputs, by position, as donated.
  uint32_t regionThatMayOverwrite(std::vector<bool> donated, std::vector<uint32_t> inputs,
                                  std::vector<uint32_t> outputs);
  void enqueue(uint32_t region);
  void copy(uint32_t source, uint32_t target);

  std::shared_ptr<plan::PlanT> plan = std::make_shared<plan::PlanT>();

private:
  static std::unique_ptr<plan::TensorTypeT> type(std::span<const Dim> extents);
  std::unique_ptr<plan::SpaceT> space(const std::string &device) const;
  uint32_t buffer(plan::BufferKind kind, uint32_t index, std::span<const Dim> extents);
  uint64_t elements() const; // for static extents
  std::vector<Dim> constantExtents() const { return plan->symbols.empty() ? extents : std::vector<Dim>{4096}; }
  std::vector<uint8_t> graph(const std::vector<uint32_t> &inputs, size_t outputs,
                             const std::vector<bool> &donated = {}) const;

  std::vector<Dim> extents;
};

Tensor tensorOf(const std::vector<float> &values, const std::vector<int64_t> &dims);

} // namespace mortise::runtime::test
