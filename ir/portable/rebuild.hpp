// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A changed copy of a view: what is not changed is shared with the original, which has to outlive it.
#pragma once

#include <mortise/graph.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace mortise::portable {

// What the struct's writer knew of it; the rest is 0.
template <typename T> T shallow(const T &from) {
  T to{};
  std::memcpy(&to, &from, std::min(from.struct_size, sizeof(T)));
  to.struct_size = sizeof(T);
  return to;
}

class Rebuild {
public:
  virtual ~Rebuild() = default;
  // The copy lives as long as this. Bodies are copied too.
  Result<MortiseGraph> rebuild(const MortiseGraph &from);

protected:
  struct Draft { // of a node; values are the original's, or made by newValue
    std::string op;
    uint32_t since = 1;
    std::vector<const MortiseValue *> operands, results;
    std::vector<const MortiseAttribute *> attributes; // in any order
    std::vector<const MortiseGraph *> bodies;         // the original's
  };

  // What to change. On false `error` is set.
  virtual bool changeType(const MortiseType *& /*type*/) { return true; }
  virtual uint32_t changeFlags(uint32_t flags) { return flags; } // of a value
  // `drafts` holds one, which is as `node`; it may become several. Nodes of bodies come before the one they belong to.
  virtual bool changeNode(const MortiseNode & /*node*/, std::vector<Draft> & /*drafts*/) { return true; }
  // The copy of the graph or of a body.
  virtual void changeGraph(MortiseGraph & /*graph*/) {}

  bool fail(MortiseCode code, std::string message) {
    error = {code, std::move(message)};
    return false;
  }
  const MortiseValue *newValue(const MortiseType *type);
  MortiseAttribute *copyOf(const MortiseAttribute &attribute) { return &attributes.emplace_back(shallow(attribute)); }
  template <typename T> T *keep(std::deque<std::vector<T>> &store, std::vector<T> list) {
    return store.emplace_back(std::move(list)).data();
  }
  const char *keep(std::string text) { return texts.emplace_back(std::move(text)).c_str(); }

  std::deque<MortiseType> types;
  std::deque<std::vector<int64_t>> numbers;
  Error error{};

private:
  struct Scope { // a graph or a body under construction
    const MortiseGraph *from;
    std::vector<MortiseValue *> values;
  };
  bool copyGraph(const MortiseGraph &from, MortiseGraph &to, size_t depth);
  bool copyNode(const MortiseNode &from, std::vector<const MortiseNode *> &nodes, size_t depth);
  bool finish(const Draft &draft, const MortiseNode &from, std::vector<const MortiseNode *> &nodes, size_t depth);
  const MortiseValue *const *mapped(const MortiseValue *const *values, size_t count);

  Scope *scope = nullptr;
  std::deque<MortiseGraph> graphs;
  std::deque<MortiseNode> nodes;
  std::deque<MortiseValue> values;
  std::deque<MortiseAttribute> attributes;
  std::deque<std::string> texts;
  std::deque<std::vector<const MortiseValue *>> valueLists;
  std::deque<std::vector<const MortiseNode *>> nodeLists;
  std::deque<std::vector<const MortiseAttribute *>> attributeLists;
  std::deque<std::vector<const MortiseGraph *>> graphLists;
};

} // namespace mortise::portable
