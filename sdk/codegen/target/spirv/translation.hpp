// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emitted kernels (scf, arith, math, and LLVM for memory) to MLIR's spirv dialect, in one walk over their structure.
// MLIR's own conversions cover arith and scf, but neither LLVM's pointers nor vectors of eight elements.
#pragma once

#include <mortise/codegen/simt.hpp>
#include <mortise/result.hpp>

#include <llvm/ADT/DenseMap.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/SPIRV/IR/SPIRVOps.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinOps.h>

#include <optional>
#include <set>
#include <string>

namespace mortise::codegen {

// What the machine (spirv.cpp) emits as calls of intrinsics, and the translation knows.
inline constexpr char
    threadIntrinsic[] = "mortise.thread",
    blockIntrinsic[] = "mortise.block", barrierIntrinsic[] = "mortise.barrier",
    exchangeIntrinsic[] = "mortise.exchange", exp2Intrinsic[] = "mortise.exp2",
    reciprocalRootIntrinsic[] = "mortise.reciprocal_root",
    // Of cooperative matrices, which the machine's matrixType stands for: of an address and the
    // stride; of zeros; of two matrices; of lhs, rhs and sums; of an address, the stride and a matrix.
    readMatrixIntrinsic[] = "mortise.matrix.read", zeroMatrixIntrinsic[] = "mortise.matrix.zero",
    addMatricesIntrinsic[] = "mortise.matrix.add", multiplyMatricesIntrinsic[] = "mortise.matrix.multiply",
    writeMatrixIntrinsic[] = "mortise.matrix.write";
inline constexpr unsigned matrixSide = 16;
inline constexpr char matrixType[] = "mortise.matrix"; // of the numbers' type and a CooperativeMatrixUseKHR

// Of an integer type as wide as a float: the bit of the float's sign.
inline int64_t signBit(mlir::Type bits) { return INT64_MIN >> (64 - bits.getIntOrFloatBitWidth()); }

class Translation {
public:
  Translation(mlir::MLIRContext &context, const VulkanFeatures &features);
  // Adds a kernel, whose arguments are followed by the addresses of these constants. Errors: MORTISE_UNSUPPORTED, for
  // what the device lacks.
  Result<void> add(mlir::LLVM::LLVMFuncOp kernel, llvm::ArrayRef<mlir::LLVM::GlobalOp> constants, unsigned threads);
  // The words of all kernels. One use.
  Result<std::string> serialise();

private:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Parts = llvm::SmallVector<Value, 1>; // one value for each lane of a vector: Vulkan's vectors have at most four
  // Where a pointer points to.
  struct Address {
    enum Kind : uint8_t { Memory, Shared } kind = Memory;
    Parts places;             // Memory: addresses as i64; else i32 numbers of elements, none at the first one
    mlir::Operation *array{}; // the global that lies there
  };

  // translation.cpp
  void operation(mlir::Operation &op);
  void block(mlir::Block &from);
  void forLoop(mlir::scf::ForOp op);
  void whileLoop(mlir::scf::WhileOp op);
  void branch(mlir::scf::IfOp op);
  void onlyIf(Value condition, llvm::function_ref<Parts()> body, Parts &results);
  void intrinsic(mlir::LLVM::CallIntrinsicOp op);
  void useVulkanMemoryModel();
  bool matrixIntrinsic(mlir::LLVM::CallIntrinsicOp op);
  Value thread();
  Value exchange(Value bits, Value mask);
  Value builtin(mlir::spirv::BuiltIn which, Type type);
  Value sharedArray(const std::string &name, Type element, size_t count);
  void barrier();
  Parts argumentValues(size_t count);
  Parts gather(mlir::ValueRange values);
  void bind(mlir::ValueRange values, mlir::ValueRange parts);
  llvm::SmallVector<Type> partTypes(mlir::TypeRange types);

  // memory.cpp
  bool memory(mlir::Operation &op);
  void offset(mlir::LLVM::GEPOp op);
  Address lane(const Address &address, size_t number) const;
  Parts load(Type type, const Address &address, unsigned alignment);
  void store(const Parts &values, Type type, const Address &address, unsigned alignment);
  Value pointer(const Address &address, Type type, size_t lane, size_t lanes);
  Value behind(const Address &address, size_t bytes); // of the kind Memory
  Value loadAt(Value address, Type type, unsigned alignment);
  Value halfOfWord(Value half, bool isUpper);
  void storeAt(Value address, Value value, unsigned alignment);
  Value arrayOf(mlir::LLVM::GlobalOp global, Type element);
  void readMatrix(mlir::LLVM::CallIntrinsicOp op);
  void writeMatrix(mlir::LLVM::CallIntrinsicOp op);

  // arithmetic.cpp
  bool arithmetic(mlir::Operation &op);
  bool conversion(mlir::Operation &op);
  bool shape(mlir::Operation &op);
  void number(mlir::arith::ConstantOp op);
  void map(mlir::Operation &op, llvm::function_ref<Value(llvm::ArrayRef<Value>)> make);
  template <typename OpT> Value two(Value x, Value y) { return OpT::create(b, loc, x.getType(), x, y); }
  template <typename OpT> Value real(Value x, Value y);
  Value quotient(Value x, Value y);
  Value root(Value x);
  bool isExactThroughF64(Type type);
  Value hiddenZero(Type type);
  Value hidden(Value x);
  bool isFoldable(Value x);
  template <typename OpT> Value compare(Value x, Value y) { return OpT::create(b, loc, b.getI1Type(), x, y); }
  template <typename OpT> Value convert(Value x, Type to) {
    return x.getType() == to ? x : Value(OpT::create(b, loc, to, x));
  }
  Value cast(Value x, Type to);
  Value compareFloats(mlir::arith::CmpFPredicate predicate, Value x, Value y, bool isRough = false);
  Value compareAsIntegers(mlir::arith::CmpFPredicate predicate, Value x, Value y);
  Value orderOf(Value x);
  Value betterOf(Value x, Value y, mlir::arith::CmpFPredicate better);
  Value compareWithZero(mlir::arith::CmpFPredicate predicate, Value x);
  bool isNormalConstant(Value x);
  bool isZero(Value x);
  Value negated(Value x);
  Value resized(Value x, Type to);
  Value compareIntegers(mlir::arith::CmpIPredicate predicate, Value x, Value y);
  std::optional<Value> compareBeforeWidening(mlir::arith::CmpIPredicate predicate, Value x, Value y);
  Value extreme(Value x, Value y, bool largest, bool isRough = false);
  Value isNan(Value x);
  Value bitsOf(Value x);
  Value copySign(Value size, Value sign);
  Value truncated(Value x);
  Value roundedToEven(Value x);
  Value highProduct(Value x, Value y);
  Value select(Value condition, Value x, Value y);
  Value integer(Type type, int64_t value);
  Value i32(int64_t value) { return integer(b.getI32Type(), value); }
  Value real(Type type, double value);

  // The type of one lane, whose capabilities the module then declares. Integers of odd widths, which masks become,
  // are i32.
  Type scalar(Type type);
  static size_t lanesOf(Type type);
  void use(mlir::spirv::Capability capability) { capabilities.insert(capability); }
  void fail(const mlir::Twine &message);
  void refuse(const mlir::Twine &message);

  mlir::MLIRContext &context;
  const VulkanFeatures features;
  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::OwningOpRef<mlir::spirv::ModuleOp> module;
  std::set<mlir::spirv::Capability> capabilities;
  std::optional<Error> failure;

  // Of the kernel at hand.
  llvm::DenseMap<Value, Parts> values;
  llvm::DenseMap<Value, Address> addresses;
  llvm::DenseMap<mlir::Operation *, Value> constants; // their addresses
  llvm::DenseMap<Value, bool> foldable;
  llvm::DenseMap<Type, Value> zeros;
  llvm::SmallVector<mlir::Attribute> interface;
  mlir::spirv::FuncOp function;
  Value firstArgument; // the address of a tensor or of the table
  std::string entry;
  unsigned threads = 1;
  size_t sharedBytes = 0;
  unsigned exchanges = 0, loops = 0;
};

} // namespace mortise::codegen
