// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions, control flow, threads.
#include "target/spirv/translation.hpp"
#include "target/dump.hpp"

#include <llvm/ADT/STLExtras.h>
#include <mlir/IR/Matchers.h>
#include <mlir/IR/Verifier.h>
#include <mlir/Target/SPIRV/Serialization.h>

#include <cstring>

namespace mortise::codegen {

using namespace mlir;
using spirv::Capability;
using spirv::StorageClass;

Translation::Translation(MLIRContext &context, const VulkanFeatures &features)
    : context(context), features(features), b(&context), loc(b.getUnknownLoc()),
      module(spirv::ModuleOp::create(b, loc, spirv::AddressingModel::PhysicalStorageBuffer64,
                                     spirv::MemoryModel::GLSL450)) {
  for (const Capability each : {Capability::Shader, Capability::PhysicalStorageBufferAddresses, Capability::Int64})
    use(each);
}

void Translation::fail(const Twine &message) {
  if (!failure)
    failure = Error{MORTISE_INTERNAL, "SPIR-V: " + message.str()};
}
void Translation::refuse(const Twine &message) {
  if (!failure)
    failure = Error{MORTISE_UNSUPPORTED, message.str()};
}

Type Translation::scalar(Type type) {
  if (auto named = dyn_cast<LLVM::LLVMTargetExtType>(type)) {
    const Type number = named.getTypeParams()[0];
    use(Capability::CooperativeMatrixKHR);
    use(number.isF16() ? Capability::Float16 : Capability::BFloat16CooperativeMatrixKHR);
    return spirv::CooperativeMatrixType::get(scalar(number), matrixSide, matrixSide, spirv::Scope::Subgroup,
                                             static_cast<spirv::CooperativeMatrixUseKHR>(named.getIntParams()[0]));
  }
  type = getElementTypeOrSelf(type);
  if (type.isF64()) {
    use(Capability::Float64);
    if (!features.doubles)
      refuse("expected a device with f64 (shaderFloat64), found none");
    return type;
  }
  if (type.isBF16())
    use(Capability::BFloat16TypeKHR);
  else if (type.isInteger(8))
    use(Capability::Int8);
  else if (type.isInteger(16))
    use(Capability::Int16);
  else if (type.isInteger() && !type.isInteger(1) && !type.isInteger(32) && !type.isInteger(64))
    return b.getI32Type();
  return type;
}

size_t Translation::lanesOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? static_cast<size_t>(vector.getNumElements()) : 1;
}

Translation::Parts Translation::gather(ValueRange from) {
  Parts all;
  for (Value value : from)
    all.append(values[value]);
  return all;
}

void Translation::bind(ValueRange to, ValueRange parts) {
  size_t at = 0;
  for (Value value : to) {
    const size_t count = lanesOf(value.getType());
    values[value] = Parts(parts.begin() + at, parts.begin() + at + count);
    at += count;
  }
}

SmallVector<Type> Translation::partTypes(TypeRange types) {
  SmallVector<Type> all;
  for (Type type : types)
    all.append(lanesOf(type), scalar(type));
  return all;
}

// ---- Functions

Value Translation::builtin(spirv::BuiltIn which, Type type) {
  const std::string name = "builtin_" + spirv::stringifyBuiltIn(which).str();
  auto pointerType = spirv::PointerType::get(type, StorageClass::Input);
  if (!module->lookupSymbol(name)) {
    OpBuilder::InsertionGuard keep(b);
    b.setInsertionPointToStart(module->getBody());
    spirv::GlobalVariableOp::create(b, loc, pointerType, name, which);
  }
  auto symbol = FlatSymbolRefAttr::get(&context, name);
  if (!llvm::is_contained(interface, symbol))
    interface.push_back(symbol);
  Value address = spirv::AddressOfOp::create(b, loc, pointerType, symbol);
  return spirv::LoadOp::create(b, loc, address);
}

// The launch's own memory holds the arguments, or, where that is too small, the address of a table of them.
Translation::Parts Translation::argumentValues(size_t count) {
  constexpr unsigned size = 8;
  const bool isTable = count * size > features.argumentBytes;
  const size_t members = isTable ? 1 : std::max<size_t>(count, 1);
  SmallVector<Type> types(members, b.getI64Type());
  SmallVector<uint32_t> offsets;
  for (size_t i = 0; i < members; ++i)
    offsets.push_back(i * size);
  auto record = spirv::StructType::get(types, offsets, {}, {{spirv::Decoration::Block, b.getUnitAttr()}});
  auto pointerType = spirv::PointerType::get(record, StorageClass::PushConstant);
  constexpr char name[] = "arguments"; // one for all kernels of a module, which have the same
  if (!module->lookupSymbol(name)) {
    OpBuilder::InsertionGuard keep(b);
    b.setInsertionPointToStart(module->getBody());
    spirv::GlobalVariableOp::create(b, loc, pointerType, name);
  }
  Value base = spirv::AddressOfOp::create(b, loc, pointerType, FlatSymbolRefAttr::get(&context, name));
  const auto member = [&](size_t i) -> Value {
    Value place = spirv::AccessChainOp::create(b, loc, base, ValueRange{i32(static_cast<int64_t>(i))});
    return spirv::LoadOp::create(b, loc, place);
  };
  Parts all;
  firstArgument = member(0);
  for (size_t i = 0; i < count; ++i)
    all.push_back(
        isTable ? loadAt(two<spirv::IAddOp>(firstArgument, integer(b.getI64Type(), static_cast<int64_t>(i * size))),
                         b.getI64Type(), size)
        : i     ? member(i)
                : firstArgument);
  return all;
}

Result<void> Translation::add(LLVM::LLVMFuncOp kernel, ArrayRef<LLVM::GlobalOp> globals, unsigned blockThreads) {
  values.clear(), addresses.clear(), constants.clear(), foldable.clear(), zeros.clear(), interface.clear();
  entry = kernel.getName().str();
  threads = blockThreads;
  sharedBytes = exchanges = loops = 0;
  b.setInsertionPointToEnd(module->getBody());
  function = spirv::FuncOp::create(b, loc, entry, b.getFunctionType({}, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  Block &body = kernel.getBody().front();
  const Parts arguments = argumentValues(body.getNumArguments() + globals.size());
  for (auto [argument, value] : llvm::zip_first(body.getArguments(), arguments))
    if (isa<LLVM::LLVMPointerType>(argument.getType()))
      addresses[argument] = Address{Address::Memory, {value}};
    else
      values[argument] = {value};
  for (size_t i = 0; i < globals.size(); ++i) {
    LLVM::GlobalOp global = globals[i];
    constants[global] = arguments[body.getNumArguments() + i];
  }
  block(body);
  spirv::ReturnOp::create(b, loc);
  if (sharedBytes > features.sharedBytes)
    refuse("expected a kernel with at most " + Twine(features.sharedBytes) + " bytes of shared memory, found " +
           Twine(sharedBytes));
  if (failure)
    return *failure;
  b.setInsertionPointToEnd(module->getBody());
  spirv::EntryPointOp::create(b, loc, spirv::ExecutionModel::GLCompute, function, interface);
  const auto mode = [&](spirv::ExecutionMode which, ArrayRef<int32_t> parameters) {
    spirv::ExecutionModeOp::create(b, loc, function, which, parameters);
  };
  mode(spirv::ExecutionMode::LocalSize, {static_cast<int32_t>(threads), 1, 1});
  const auto promise = [&](bool isOffered, spirv::ExecutionMode which, Capability capability, int32_t width) {
    if (!isOffered)
      return;
    use(capability);
    mode(which, {width});
  };
  const auto promises = [&](const VulkanFeatures::Floats &floats, int32_t width) {
    promise(floats.denormals, spirv::ExecutionMode::DenormPreserve, Capability::DenormPreserve, width);
    promise(floats.specials, spirv::ExecutionMode::SignedZeroInfNanPreserve, Capability::SignedZeroInfNanPreserve,
            width);
    promise(floats.nearest, spirv::ExecutionMode::RoundingModeRTE, Capability::RoundingModeRTE, width);
  };
  promises(features.f32, 32);
  if (capabilities.contains(Capability::Float64))
    promises(features.f64, 64);
  return {};
}

// As cooperative matrices need. What threads of a block pass on to each other then says so, and barriers name what they
// make available and visible.
void Translation::useVulkanMemoryModel() {
  use(Capability::VulkanMemoryModel);
  (*module)->setAttr("memory_model", spirv::MemoryModelAttr::get(&context, spirv::MemoryModel::Vulkan));
  const auto isShared = [](Value pointer) {
    return cast<spirv::PointerType>(pointer.getType()).getStorageClass() == StorageClass::Workgroup;
  };
  constexpr auto nonPrivate = spirv::MemoryAccess::NonPrivatePointer;
  (*module)->walk([&](Operation *op) {
    if (auto load = dyn_cast<spirv::LoadOp>(op); load && isShared(load.getPtr()))
      load.setMemoryAccess(nonPrivate);
    else if (auto store = dyn_cast<spirv::StoreOp>(op); store && isShared(store.getPtr()))
      store.setMemoryAccess(nonPrivate);
    else if (auto read = dyn_cast<spirv::KHRCooperativeMatrixLoadOp>(op))
      read.setMemoryOperand(nonPrivate);
    else if (auto write = dyn_cast<spirv::KHRCooperativeMatrixStoreOp>(op))
      write.setMemoryOperand(nonPrivate);
    else if (auto barrier = dyn_cast<spirv::ControlBarrierOp>(op))
      barrier.setMemorySemantics(barrier.getMemorySemantics() | spirv::MemorySemantics::MakeAvailable |
                                 spirv::MemorySemantics::MakeVisible);
  });
}

Result<std::string> Translation::serialise() {
  if (capabilities.contains(Capability::CooperativeMatrixKHR))
    useVulkanMemoryModel();
  if (capabilities.contains(Capability::Int8))
    use(Capability::StorageBuffer8BitAccess);
  if (capabilities.contains(Capability::Int16))
    use(Capability::StorageBuffer16BitAccess);
  SmallVector<spirv::Extension> extensions{spirv::Extension::SPV_KHR_physical_storage_buffer};
  const auto needs = [&](std::initializer_list<Capability> which, spirv::Extension extension) {
    if (llvm::any_of(which, [&](Capability each) { return capabilities.contains(each); }))
      extensions.push_back(extension);
  };
  needs({Capability::StorageBuffer8BitAccess}, spirv::Extension::SPV_KHR_8bit_storage);
  needs({Capability::StorageBuffer16BitAccess}, spirv::Extension::SPV_KHR_16bit_storage);
  needs({Capability::DenormPreserve, Capability::SignedZeroInfNanPreserve, Capability::RoundingModeRTE},
        spirv::Extension::SPV_KHR_float_controls);
  needs({Capability::BFloat16TypeKHR}, spirv::Extension::SPV_KHR_bfloat16);
  needs({Capability::CooperativeMatrixKHR}, spirv::Extension::SPV_KHR_cooperative_matrix);
  needs({Capability::VulkanMemoryModel}, spirv::Extension::SPV_KHR_vulkan_memory_model);
  (*module)->setAttr(spirv::ModuleOp::getVCETripleAttrName(),
                     spirv::VerCapExtAttr::get(spirv::Version::V_1_3,
                                               SmallVector<Capability>(capabilities.begin(), capabilities.end()),
                                               extensions, &context));
  if (isDumped("spirv"))
    (*module)->dump();
#ifndef NDEBUG
  if (failed(verify(*module)))
    return Error{MORTISE_INTERNAL, "generated SPIR-V does not verify"};
#endif
  SmallVector<uint32_t, 0> words;
  spirv::SerializationOptions options;
  options.emitSymbolName = false;
  if (failed(spirv::serialize(*module, words, options)))
    return Error{MORTISE_INTERNAL, "generated code does not serialise to SPIR-V"};
  std::string bytes(words.size() * sizeof(uint32_t), '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

// ---- Control flow

void Translation::block(Block &from) {
  for (Operation &op : from) {
    if (failure)
      return;
    if (op.hasTrait<OpTrait::IsTerminator>())
      return;
    operation(op);
  }
}

void Translation::operation(Operation &op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return forLoop(loop);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return whileLoop(loop);
  if (auto choice = dyn_cast<scf::IfOp>(op))
    return branch(choice);
  if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op))
    return intrinsic(call);
  if (!memory(op) && !arithmetic(op) && !conversion(op) && !shape(op) && !failure)
    fail("no translation of " + op.getName().getStringRef());
}

void Translation::forLoop(scf::ForOp op) {
  const Value low = values[op.getLowerBound()][0], high = values[op.getUpperBound()][0], step = values[op.getStep()][0];
  Parts start{low};
  start.append(gather(op.getInitArgs()));
  SmallVector<Type> types = partTypes(op.getResultTypes());
  auto loop = spirv::LoopOp::create(b, loc, types, spirv::LoopControl::None);
  {
    OpBuilder::InsertionGuard keep(b);
    ++loops;
    Region &region = loop.getBody();
    SmallVector<Type> headerTypes{low.getType()};
    headerTypes.append(types);
    const auto add = [&](ArrayRef<Type> arguments) {
      return b.createBlock(&region, region.end(), arguments, SmallVector<Location>(arguments.size(), loc));
    };
    Block *before = add({}), *header = add(headerTypes), *body = add({}), *next = add(types), *after = add({});
    b.setInsertionPointToEnd(before);
    spirv::BranchOp::create(b, loc, header, start);
    b.setInsertionPointToEnd(header);
    const Value counter = header->getArgument(0);
    const ValueRange carried = header->getArguments().drop_front();
    spirv::BranchConditionalOp::create(b, loc, compare<spirv::SLessThanOp>(counter, high), body, ValueRange(), after,
                                       ValueRange());
    b.setInsertionPointToEnd(body);
    values[op.getInductionVar()] = {counter};
    bind(op.getRegionIterArgs(), carried);
    block(*op.getBody());
    if (!failure)
      spirv::BranchOp::create(b, loc, next, gather(op.getBody()->getTerminator()->getOperands()));
    b.setInsertionPointToEnd(next);
    SmallVector<Value> again{two<spirv::IAddOp>(counter, step)};
    again.append(next->args_begin(), next->args_end());
    spirv::BranchOp::create(b, loc, header, again);
    b.setInsertionPointToEnd(after);
    spirv::MergeOp::create(b, loc, carried);
    --loops;
  }
  bind(op.getResults(), loop.getResults());
}

// The header only branches: what computes the condition may have branches of its own.
void Translation::whileLoop(scf::WhileOp op) {
  const Parts start = gather(op.getInits());
  SmallVector<Type> headerTypes = partTypes(op.getInits().getTypes());
  auto loop = spirv::LoopOp::create(b, loc, partTypes(op.getResultTypes()), spirv::LoopControl::None);
  {
    OpBuilder::InsertionGuard keep(b);
    ++loops;
    Region &region = loop.getBody();
    const auto add = [&](ArrayRef<Type> arguments) {
      return b.createBlock(&region, region.end(), arguments, SmallVector<Location>(arguments.size(), loc));
    };
    Block *before = add({}), *header = add(headerTypes), *test = add({}), *body = add({}), *next = add(headerTypes),
          *after = add({});
    b.setInsertionPointToEnd(before);
    spirv::BranchOp::create(b, loc, header, start);
    b.setInsertionPointToEnd(header);
    spirv::BranchOp::create(b, loc, test);
    b.setInsertionPointToEnd(test);
    bind(op.getBeforeArguments(), header->getArguments());
    block(*op.getBeforeBody());
    if (failure)
      return;
    scf::ConditionOp condition = op.getConditionOp();
    const Parts passed = gather(condition.getArgs());
    spirv::BranchConditionalOp::create(b, loc, values[condition.getCondition()][0], body, ValueRange(), after,
                                       ValueRange());
    b.setInsertionPointToEnd(body);
    bind(op.getAfterArguments(), passed);
    block(*op.getAfterBody());
    if (failure)
      return;
    spirv::BranchOp::create(b, loc, next, gather(op.getYieldOp().getOperands()));
    b.setInsertionPointToEnd(next);
    spirv::BranchOp::create(b, loc, header, next->getArguments());
    b.setInsertionPointToEnd(after);
    spirv::MergeOp::create(b, loc, passed);
    --loops;
  }
  bind(op.getResults(), loop.getResults());
}

void Translation::branch(scf::IfOp op) {
  const Value condition = values[op.getCondition()][0];
  SmallVector<Type> types = partTypes(op.getResultTypes());
  auto selection = spirv::SelectionOp::create(b, loc, types, spirv::SelectionControl::None);
  {
    OpBuilder::InsertionGuard keep(b);
    Region &region = selection.getBody();
    const auto add = [&](ArrayRef<Type> arguments) {
      return b.createBlock(&region, region.end(), arguments, SmallVector<Location>(arguments.size(), loc));
    };
    const bool hasElse = !op.getElseRegion().empty();
    Block *header = add({}), *then = add({}), *otherwise = hasElse ? add({}) : nullptr, *after = add(types);
    b.setInsertionPointToEnd(header);
    spirv::BranchConditionalOp::create(b, loc, condition, then, ValueRange(), hasElse ? otherwise : after,
                                       ValueRange());
    const auto fill = [&](Block *to, Block &from) {
      b.setInsertionPointToEnd(to);
      block(from);
      if (!failure)
        spirv::BranchOp::create(b, loc, after, gather(from.getTerminator()->getOperands()));
    };
    fill(then, *op.thenBlock());
    if (hasElse && !failure)
      fill(otherwise, *op.elseBlock());
    b.setInsertionPointToEnd(after);
    spirv::MergeOp::create(b, loc, after->getArguments());
  }
  bind(op.getResults(), selection.getResults());
}

// Replaces `results` by those of the body where the condition holds.
void Translation::onlyIf(Value condition, llvm::function_ref<Parts()> body, Parts &results) {
  SmallVector<Type> types(ValueRange(results).getTypes());
  auto selection = spirv::SelectionOp::create(b, loc, types, spirv::SelectionControl::None);
  {
    OpBuilder::InsertionGuard keep(b);
    Region &region = selection.getBody();
    Block *header = b.createBlock(&region), *then = b.createBlock(&region, region.end());
    Block *after = b.createBlock(&region, region.end(), types, SmallVector<Location>(types.size(), loc));
    b.setInsertionPointToEnd(header);
    spirv::BranchConditionalOp::create(b, loc, condition, then, ValueRange(), after, results);
    b.setInsertionPointToEnd(then);
    const Parts made = body();
    spirv::BranchOp::create(b, loc, after, made);
    b.setInsertionPointToEnd(after);
    spirv::MergeOp::create(b, loc, after->getArguments());
  }
  results.assign(selection.getResults().begin(), selection.getResults().end());
}

// ---- Threads

void Translation::intrinsic(LLVM::CallIntrinsicOp op) {
  const StringRef name = op.getIntrin();
  if (name == barrierIntrinsic)
    return barrier();
  if (matrixIntrinsic(op))
    return;
  Value result;
  if (name == threadIntrinsic) {
    result = thread();
  } else if (name == blockIntrinsic) {
    Value all = builtin(spirv::BuiltIn::WorkgroupId, VectorType::get({3}, b.getI32Type()));
    Value column = spirv::CompositeExtractOp::create(b, loc, all, ArrayRef<int32_t>{0});
    Value row = spirv::CompositeExtractOp::create(b, loc, all, ArrayRef<int32_t>{1});
    result = two<spirv::IAddOp>(column, two<spirv::IMulOp>(row, i32(VulkanFeatures::gridRow)));
  } else if (name == exchangeIntrinsic) {
    result = exchange(values[op.getArgs()[0]][0], values[op.getArgs()[1]][0]);
  } else if (name == exp2Intrinsic || name == reciprocalRootIntrinsic) {
    Value x = values[op.getArgs()[0]][0];
    result = name == exp2Intrinsic ? Value(spirv::GLExp2Op::create(b, loc, x.getType(), x))
                                   : Value(spirv::GLInverseSqrtOp::create(b, loc, x.getType(), x));
  } else {
    return fail("unknown intrinsic " + name);
  }
  values[op.getResult(0)] = {result};
}

bool Translation::matrixIntrinsic(LLVM::CallIntrinsicOp op) {
  const StringRef name = op.getIntrin();
  const auto operand = [&](unsigned i) { return values[op.getArgs()[i]][0]; };
  if (name == readMatrixIntrinsic)
    readMatrix(op);
  else if (name == writeMatrixIntrinsic)
    writeMatrix(op);
  else if (name == zeroMatrixIntrinsic)
    values[op.getResult(0)] = {spirv::CompositeConstructOp::create(b, loc, scalar(op.getResult(0).getType()),
                                                                   ValueRange{real(b.getF32Type(), 0.0)})};
  else if (name == addMatricesIntrinsic)
    values[op.getResult(0)] = {two<spirv::FAddOp>(operand(0), operand(1))};
  else if (name == multiplyMatricesIntrinsic)
    values[op.getResult(0)] = {spirv::KHRCooperativeMatrixMulAddOp::create(b, loc, operand(0), operand(1), operand(2))};
  else
    return false;
  return true;
}

// Only the numbers of subgroups, and of the threads in them, say who exchanges with whom.
Value Translation::thread() {
  const Type i32 = b.getI32Type();
  if (!features.subgroup)
    return builtin(spirv::BuiltIn::LocalInvocationIndex, i32);
  use(Capability::GroupNonUniform);
  if (threads % features.subgroup != 0)
    fail("a block that subgroups do not divide");
  Value first = two<spirv::IMulOp>(builtin(spirv::BuiltIn::SubgroupId, i32), this->i32(features.subgroup));
  return two<spirv::IAddOp>(first, builtin(spirv::BuiltIn::SubgroupLocalInvocationId, i32));
}

void Translation::barrier() {
  spirv::ControlBarrierOp::create(b, loc, spirv::Scope::Workgroup, spirv::Scope::Workgroup,
                                  spirv::MemorySemantics::AcquireRelease | spirv::MemorySemantics::WorkgroupMemory);
}

Value Translation::sharedArray(const std::string &name, Type element, size_t count) {
  auto array = spirv::ArrayType::get(element, static_cast<unsigned>(count));
  auto type = spirv::PointerType::get(array, StorageClass::Workgroup);
  if (!module->lookupSymbol(name)) {
    sharedBytes += count * element.getIntOrFloatBitWidth() / 8;
    OpBuilder::InsertionGuard keep(b);
    b.setInsertionPointToStart(module->getBody());
    spirv::GlobalVariableOp::create(b, loc, type, name);
  }
  return spirv::AddressOfOp::create(b, loc, type, FlatSymbolRefAttr::get(&context, name));
}

// Through shared memory, where all threads of the block come to the same exchange. Two arrays by turns need one barrier
// each: who writes the first one again has passed the barrier that the readers of its old contents had come to. In a
// loop the turns would not hold.
Value Translation::exchange(Value bits, Value mask) {
  if (features.subgroup) {
    use(Capability::GroupNonUniformShuffle);
    return spirv::GroupNonUniformShuffleXorOp::create(b, loc, bits.getType(), spirv::Scope::Subgroup, bits, mask);
  }
  Value array = sharedArray(entry + "_exchange" + std::to_string(exchanges++ % 2), b.getI32Type(), threads);
  Value mine = thread();
  const auto place = [&](Value number) -> Value {
    return spirv::AccessChainOp::create(b, loc, array, ValueRange{number});
  };
  if (loops > 0)
    barrier();
  spirv::StoreOp::create(b, loc, place(mine), bits);
  barrier();
  return spirv::LoadOp::create(b, loc, place(two<spirv::BitwiseXorOp>(mine, mask)));
}

} // namespace mortise::codegen
