// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops of vendors (decision 0048) whose plugin runs in a process of its own: their declarations, and questions to the
// slot `infer`.
#pragma once

#include "message.hpp"

#include <mortise/plugin.h>

#include <deque>

namespace mortise::runtime::isolation {

// In the worker, of a table whose ops the loader has checked.
std::vector<DeclaredOp> declaredOps(const MortisePlugin &table);
Result<Inferred> answerInfer(const MortisePlugin &table, const Infer &asked);

// In the host: the declarations as the ABI has them. Nothing of them is checked.
class OpDeclarations {
public:
  explicit OpDeclarations(std::vector<DeclaredOp> ops);
  OpDeclarations(const OpDeclarations &) = delete;
  OpDeclarations &operator=(const OpDeclarations &) = delete;

  const MortiseOpDeclaration *const *data() const { return list.data(); }
  size_t size() const { return list.size(); }

private:
  struct Op {
    std::vector<MortiseAttribute> fallbacks;
    std::vector<MortiseAttributeDeclaration> attributes;
    std::vector<const MortiseAttributeDeclaration *> list;
    MortiseOpDeclaration declaration;
  };
  const std::vector<DeclaredOp> told; // the texts and lists that the others point to
  std::deque<Op> ops;
  std::vector<const MortiseOpDeclaration *> list;
};

Result<Infer> inferQuestion(const MortiseInferArgs &args);
// Hands the types of an answer to `args.add`. Errors: what the plugin answered is wrong.
Result<void> addInferred(const Inferred &inferred, const MortiseInferArgs &args);

} // namespace mortise::runtime::isolation
