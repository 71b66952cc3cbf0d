// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulated_machine.hpp"

#include <array>
#include <bit>
#include <cstddef>

namespace mortise::codegen::test {

using mlir::Type;
using mlir::Value;
namespace LLVM = mlir::LLVM;

Value calleeOfTable(Code &c, EmulatedCall call) {
  auto module = c.b.getBlock()->getParent()->getParentOfType<mlir::ModuleOp>();
  auto table = module.lookupSymbol<LLVM::GlobalOp>(emulatedTable);
  const auto i64 = c.b.getI64Type();
  if (!table) {
    mlir::OpBuilder::InsertionGuard keep(c.b);
    c.b.setInsertionPointToStart(module.getBody());
    constexpr auto count = static_cast<int64_t>(EmulatedCall::Count);
    // With a value, so that it is defined here; it is no constant.
    const auto zeros = mlir::DenseElementsAttr::get(mlir::RankedTensorType::get({count}, i64), int64_t{0});
    table = LLVM::GlobalOp::create(c.b, c.loc, LLVM::LLVMArrayType::get(i64, count), /*isConstant=*/false,
                                   LLVM::Linkage::External, emulatedTable, zeros);
  }
  const Type pointer = LLVM::LLVMPointerType::get(c.b.getContext());
  Value base = LLVM::AddressOfOp::create(c.b, c.loc, pointer, emulatedTable);
  Value place =
      LLVM::GEPOp::create(c.b, c.loc, pointer, i64, base, llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(call)});
  return LLVM::LoadOp::create(c.b, c.loc, pointer, place);
}

// ---- The machine

Value EmulatedMachine::call(Code &c, EmulatedCall which, Type result, mlir::ValueRange arguments) const {
  llvm::SmallVector<Value> operands{callee(c, which)};
  operands.append(arguments.begin(), arguments.end());
  llvm::SmallVector<Type> types;
  for (Value argument : arguments)
    types.push_back(argument.getType());
  auto type = LLVM::LLVMFunctionType::get(result ? result : LLVM::LLVMVoidType::get(c.b.getContext()), types);
  auto op = LLVM::CallOp::create(c.b, c.loc, type, operands);
  return result ? op.getResult() : Value();
}

Value EmulatedMachine::thread(Code &c) const { return call(c, EmulatedCall::Thread, c.b.getI32Type(), {}); }
Value EmulatedMachine::block(Code &c) const { return call(c, EmulatedCall::Block, c.b.getI32Type(), {}); }

void EmulatedMachine::barrier(Code &c) const {
  synchronises = true;
  call(c, EmulatedCall::Barrier, {}, {});
}

Value EmulatedMachine::sharedArray(Code &c, mlir::ModuleOp module, const std::string &name, Type type,
                                   size_t count) const {
  Value all = SimtMachine::sharedArray(c, module, name, type, count * blocks);
  if (blocks == 1)
    return all;
  ofFirst[all] = {all, count * bytesOf(type)};
  Value number = c.two<mlir::arith::RemUIOp>(block(c), c.integer(c.b.getI32Type(), blocks)),
        mine = ofBlock(c, all, number);
  ofFirst[mine] = ofFirst[all];
  return mine;
}
Value EmulatedMachine::ofBlock(Code &c, Value array, Value number) const {
  const auto &[first, bytes] = ofFirst.at(array);
  Value distance = c.mulI(c.resizeInt(number, c.b.getI64Type(), false), c.i64(static_cast<int64_t>(bytes)));
  return LLVM::GEPOp::create(c.b, c.loc, first.getType(), c.b.getI8Type(), first, mlir::ValueRange{distance});
}
void EmulatedMachine::clusterBarrier(Code &c) const {
  synchronises = true;
  call(c, EmulatedCall::ClusterBarrier, {}, {});
}

Value EmulatedMachine::exchange(Code &c, Value bits, unsigned mask) const {
  synchronises = true;
  return call(c, EmulatedCall::Exchange, c.b.getI32Type(), {bits, c.integer(c.b.getI32Type(), mask)});
}

void EmulatedMachine::copyAside(Code &c, Value to, Value from) const {
  call(c, EmulatedCall::CopyAside, {}, {to, from});
}
void EmulatedMachine::awaitCopies(Code &c) const { call(c, EmulatedCall::AwaitCopies, {}, {}); }

static constexpr unsigned fragmentWords = sizeof(BlockRun::LineFragments) / 4, lineWords = sizeof(BlockRun::Lines) / 4,
                          memoryWords = fragmentWords + lineWords;
static_assert(fragmentWords >= sizeof(BlockRun::Fragments) / 4);

// Of the thread, on its stack: what a call of matrices is given and gives.
Value EmulatedMachine::words(Code &c) const {
  if (!memory) {
    mlir::OpBuilder::InsertionGuard keep(c.b);
    auto function = c.b.getBlock()->getParent()->getParentOfType<LLVM::LLVMFuncOp>();
    c.b.setInsertionPointToStart(&function.getBody().front());
    memory = LLVM::AllocaOp::create(c.b, c.loc, LLVM::LLVMPointerType::get(c.b.getContext()), c.b.getI32Type(),
                                    c.integer(c.b.getI32Type(), memoryWords));
  }
  return memory;
}

static Value wordOf(Code &c, Value words, unsigned number) {
  return LLVM::GEPOp::create(c.b, c.loc, words.getType(), c.b.getI32Type(), words,
                             llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(number)});
}
static llvm::SmallVector<Value> someWords(Code &c, Value words, unsigned first, Type type, size_t count = 4) {
  llvm::SmallVector<Value> all;
  for (unsigned i = 0; i < count; ++i)
    all.push_back(LLVM::LoadOp::create(c.b, c.loc, type, wordOf(c, words, first + i)));
  return all;
}

llvm::SmallVector<Value> EmulatedMachine::multiply(Code &c, int32_t dtype, llvm::ArrayRef<Value> lhs,
                                                   llvm::ArrayRef<Value> rhs, llvm::ArrayRef<Value> sums) const {
  synchronises = true;
  if (layout != mmaLayout)
    return multiplyLines(c, dtype, lhs[0], rhs[0], sums);
  unsigned word = 0;
  for (const llvm::ArrayRef<Value> values : {lhs, rhs, sums})
    for (Value value : values)
      LLVM::StoreOp::create(c.b, c.loc, value, wordOf(c, words(c), word++));
  call(c, EmulatedCall::Multiply, {}, {c.integer(c.b.getI32Type(), dtype), words(c)});
  return someWords(c, words(c), 6, c.b.getF32Type());
}

BlockRun::Lines EmulatedMachine::lines(int32_t dtype) const {
  return {static_cast<uint32_t>(dtype), layout->terms, layout->rows.piece, layout->rows.results, layout->rows.apart};
}

llvm::SmallVector<Value> EmulatedMachine::multiplyLines(Code &c, int32_t dtype, Value lhs, Value rhs,
                                                        llvm::ArrayRef<Value> sums) const {
  const auto store = [&](Value value, size_t byte) {
    LLVM::StoreOp::create(c.b, c.loc, value, wordOf(c, words(c), static_cast<unsigned>(byte / 4)), /*alignment=*/4);
  };
  store(lhs, offsetof(BlockRun::LineFragments, lhs)), store(rhs, offsetof(BlockRun::LineFragments, rhs));
  for (size_t i = 0; i < sums.size(); ++i)
    store(sums[i], offsetof(BlockRun::LineFragments, sums) + i * 4);
  const auto numbers = std::bit_cast<std::array<uint32_t, lineWords>>(lines(dtype));
  for (size_t i = 0; i < numbers.size(); ++i)
    store(c.integer(c.b.getI32Type(), numbers[i]), (fragmentWords + i) * 4);
  call(c, EmulatedCall::MultiplyLines, {}, {wordOf(c, words(c), fragmentWords), words(c)});
  return someWords(c, words(c), offsetof(BlockRun::LineFragments, sums) / 4, c.b.getF32Type(), sums.size());
}

llvm::SmallVector<Value> EmulatedMachine::readFactors(Code &c, const Factors &factors) const {
  if (layout == mmaLayout)
    return readMatrices(c, factors.first, /*transposed=*/false);
  const int64_t count = lines(0).factors();
  const Type type = mlir::VectorType::get({count}, c.b.getI16Type());
  const auto alignment = static_cast<unsigned>(std::min<int64_t>(2 * count, 16));
  return {LLVM::LoadOp::create(c.b, c.loc, type, factors.first, alignment)};
}

llvm::SmallVector<Value> EmulatedMachine::readMatrices(Code &c, Value row, bool transposed) const {
  synchronises = true;
  call(c, EmulatedCall::ReadMatrices, {}, {row, c.integer(c.b.getI32Type(), transposed), words(c)});
  return someWords(c, words(c), 0, c.b.getI32Type());
}

Value EmulatedApproximations::exp2(Code &c, Value x, bool subnormals) const {
  return machine.call(c, subnormals ? EmulatedCall::Exp2 : EmulatedCall::Exp2WithoutSubnormals, x.getType(), x);
}
Value EmulatedApproximations::reciprocal(Code &c, Value x) const {
  if (!hasReciprocal)
    return Approximations::reciprocal(c, x);
  return machine.call(c, EmulatedCall::Reciprocal, x.getType(), x);
}
Value EmulatedApproximations::reciprocalRoot(Code &c, Value x) const {
  return machine.call(c, EmulatedCall::ReciprocalRoot, x.getType(), x);
}
Value EmulatedApproximations::flushingFma(Code &c, Value x, Value y, Value z) const {
  return machine.call(c, EmulatedCall::FlushingFma, x.getType(), {x, y, z});
}

// ---- Modules

static void poisonShared(mlir::ModuleOp module) {
  for (auto global : module.getOps<LLVM::GlobalOp>()) {
    const auto array = llvm::dyn_cast<LLVM::LLVMArrayType>(global.getType());
    if (global.getValueAttr() || !array || !array.getElementType().isIntOrFloat())
      continue;
    const Type element = array.getElementType();
    mlir::OpBuilder b(module.getContext());
    const llvm::APInt ones = llvm::APInt::getAllOnes(element.getIntOrFloatBitWidth());
    const auto floats = llvm::dyn_cast<mlir::FloatType>(element);
    const mlir::Attribute bits =
        floats ? mlir::Attribute(b.getFloatAttr(element, llvm::APFloat(floats.getFloatSemantics(), ones)))
               : mlir::Attribute(b.getIntegerAttr(element, ones));
    const auto type = mlir::RankedTensorType::get({static_cast<int64_t>(array.getNumElements())}, element);
    global.setValueAttr(mlir::DenseElementsAttr::get(type, bits));
  }
}

void EmulatedMachine::finish(mlir::ModuleOp module, const Instructions &instructions) const {
  const auto check = [&](mlir::Operation *op, Value address, Type type, std::optional<uint64_t> alignment) {
    if (!alignment || *alignment * 8 <= mlir::getElementTypeOrSelf(type).getIntOrFloatBitWidth())
      return;
    mlir::OpBuilder builder(op);
    Code c(builder, op->getLoc(), 1, instructions);
    Value number = LLVM::PtrToIntOp::create(builder, c.loc, builder.getI64Type(), address);
    this->call(c, EmulatedCall::Access, {}, {number, c.i64(static_cast<int64_t>(*alignment))});
  };
  module.walk([&](LLVM::LoadOp op) { check(op, op.getAddr(), op.getType(), op.getAlignment()); });
  module.walk([&](LLVM::StoreOp op) { check(op, op.getAddr(), op.getValue().getType(), op.getAlignment()); });
  poisonShared(module);
}

} // namespace mortise::codegen::test
