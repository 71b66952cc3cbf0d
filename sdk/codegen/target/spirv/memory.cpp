// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Addresses, loads and stores: of tensors, and of a block's memory.
#include "target/spirv/translation.hpp"

#include <llvm/ADT/STLExtras.h>
#include <mlir/IR/Matchers.h>

namespace mortise::codegen {

using namespace mlir;
using spirv::StorageClass;

Value Translation::loadAt(Value address, Type type, unsigned alignment) {
  Value place = spirv::ConvertUToPtrOp::create(
      b, loc, spirv::PointerType::get(type, StorageClass::PhysicalStorageBuffer), address);
  return spirv::LoadOp::create(b, loc, place, spirv::MemoryAccessAttr::get(&context, spirv::MemoryAccess::Aligned),
                               b.getI32IntegerAttr(static_cast<int32_t>(alignment)));
}

void Translation::storeAt(Value address, Value value, unsigned alignment) {
  auto type = spirv::PointerType::get(value.getType(), StorageClass::PhysicalStorageBuffer);
  Value place = spirv::ConvertUToPtrOp::create(b, loc, type, address);
  spirv::StoreOp::create(b, loc, place, value, spirv::MemoryAccessAttr::get(&context, spirv::MemoryAccess::Aligned),
                         b.getI32IntegerAttr(static_cast<int32_t>(alignment)));
}

static unsigned bytesOf(Type type) { return std::max(1U, getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8); }

static bool isSharedSpace(LLVM::GlobalOp global) { return global.getAddrSpace() != 0; }

// A vector of the emitter's takes as many elements, those of one lane side by side.
Value Translation::arrayOf(LLVM::GlobalOp global, Type element) {
  auto array = cast<LLVM::LLVMArrayType>(global.getType());
  return sharedArray(global.getSymName().str(), scalar(element),
                     array.getNumElements() * lanesOf(array.getElementType()));
}

Translation::Address Translation::lane(const Address &address, size_t number) const {
  Address one = address;
  if (address.places.size() > 1)
    one.places = {address.places[number]};
  return one;
}

void Translation::offset(LLVM::GEPOp op) {
  Address address = addresses[op.getBase()];
  const Type element = op.getElemType();
  Parts indices;
  if (op.getIndices().size() != 1)
    return fail("an address with several indices");
  const auto index = *op.getIndices().begin();
  if (auto number = dyn_cast<IntegerAttr>(index))
    indices = {integer(b.getI64Type(), number.getInt())};
  else
    indices = values[cast<Value>(index)];
  if (address.kind != Address::Memory) {
    const Parts base = address.places;
    address.places.clear();
    for (size_t i = 0; i < std::max(base.size(), indices.size()); ++i) {
      Value by = cast(indices[indices.size() == 1 ? 0 : i], b.getI32Type());
      address.places.push_back(base.empty() ? by : two<spirv::IAddOp>(base[base.size() == 1 ? 0 : i], by));
    }
    addresses[op] = address;
    return;
  }
  Parts moved;
  const Parts base = address.places;
  for (size_t i = 0; i < std::max(base.size(), indices.size()); ++i) {
    Value by = indices[indices.size() == 1 ? 0 : i];
    by = by.getType().isInteger(64) ? by : convert<spirv::SConvertOp>(by, b.getI64Type());
    if (const unsigned size = bytesOf(element); size > 1)
      by = two<spirv::IMulOp>(by, integer(b.getI64Type(), size));
    moved.push_back(two<spirv::IAddOp>(base[base.size() == 1 ? 0 : i], by));
  }
  address.places = moved;
  addresses[op] = address;
}

// Of an element in an array.
Value Translation::pointer(const Address &address, Type type, size_t lane, size_t lanes) {
  auto global = cast<LLVM::GlobalOp>(address.array);
  Value index = address.places.empty() ? i32(0) : address.places[0];
  if (lanes > 1) {
    const auto count = cast<LLVM::LLVMArrayType>(global.getType()).getNumElements();
    index = two<spirv::IAddOp>(index, i32(static_cast<int64_t>(lane * count)));
  }
  return spirv::AccessChainOp::create(b, loc, arrayOf(global, type), ValueRange{index});
}

// The bytes of a piece of a vector that moves at once: as wide as its alignment, at most 16. 0: its lanes move one by
// one.
static unsigned pieceOf(unsigned size, size_t lanes, unsigned alignment) {
  const unsigned piece = std::min<unsigned>({16, alignment, static_cast<unsigned>(size * lanes)});
  return lanes == 1 || piece <= size || piece < 4 ? 0 : piece;
}

// 16 bits in a word whose other half is 0. They are half of a word already where they come from memory or have been
// rounded to bf16.
Value Translation::halfOfWord(Value half, bool isUpper) {
  const Type word = b.getI32Type();
  Value whole;
  if (auto narrowed = half.getDefiningOp<spirv::UConvertOp>())
    whole = narrowed.getOperand().getType() == word ? narrowed.getOperand() : Value();
  auto shifted = whole ? whole.getDefiningOp<spirv::ShiftRightLogicalOp>() : spirv::ShiftRightLogicalOp();
  llvm::APInt amount;
  if (shifted && matchPattern(shifted.getOperand2(), m_ConstantInt(&amount)) && amount == 16)
    return isUpper ? two<spirv::BitwiseAndOp>(shifted.getOperand1(), i32(INT64_C(0xffff0000))) : whole;
  if (!whole || !isUpper)
    whole = convert<spirv::UConvertOp>(half, word);
  return isUpper ? two<spirv::ShiftLeftLogicalOp>(whole, i32(16)) : whole;
}

Value Translation::behind(const Address &address, size_t bytes) {
  const Value base = address.places[0];
  return bytes ? two<spirv::IAddOp>(base, integer(b.getI64Type(), static_cast<int64_t>(bytes))) : base;
}

// Narrow elements of a piece are packed into words.
Translation::Parts Translation::load(Type type, const Address &address, unsigned alignment) {
  const size_t lanes = lanesOf(type);
  const Type element = scalar(type);
  Parts parts;
  if (address.kind != Address::Memory) {
    for (size_t i = 0; i < lanes; ++i)
      parts.push_back(spirv::LoadOp::create(b, loc, pointer(address, type, i, lanes)));
    return parts;
  }
  const unsigned size = bytesOf(element);
  const unsigned piece = pieceOf(size, lanes, alignment);
  if (!piece) {
    for (size_t i = 0; i < lanes; ++i)
      parts.push_back(loadAt(behind(address, i * size), element, std::min(alignment, size)));
    return parts;
  }
  const Type word = size >= 4 ? element : b.getI32Type();
  const unsigned wordBytes = std::max(4U, size), words = piece / wordBytes;
  for (size_t done = 0; done < size * lanes; done += piece) {
    Value loaded = loadAt(behind(address, done), words > 1 ? Type(VectorType::get({words}, word)) : word, piece);
    for (unsigned w = 0; w < words; ++w) {
      Value one = loaded;
      if (words > 1)
        one = spirv::CompositeExtractOp::create(b, loc, loaded, ArrayRef<int32_t>{static_cast<int32_t>(w)});
      if (size >= 4) {
        parts.push_back(one);
        continue;
      }
      for (unsigned i = 0; i < 4 / size; ++i) {
        Value moved = i ? two<spirv::ShiftRightLogicalOp>(one, i32(int64_t(i) * size * 8)) : one;
        parts.push_back(convert<spirv::UConvertOp>(moved, element));
      }
    }
  }
  return parts;
}

void Translation::store(const Parts &parts, Type type, const Address &address, unsigned alignment) {
  const size_t lanes = lanesOf(type);
  const Type element = scalar(type);
  if (address.kind != Address::Memory) {
    for (size_t i = 0; i < lanes; ++i)
      spirv::StoreOp::create(b, loc, pointer(address, type, i, lanes), parts[i]);
    return;
  }
  const unsigned size = bytesOf(element);
  const unsigned piece = pieceOf(size, lanes, alignment);
  if (!piece) {
    for (size_t i = 0; i < lanes; ++i)
      storeAt(behind(address, i * size), parts[i], std::min(alignment, size));
    return;
  }
  const unsigned wordBytes = std::max(4U, size), words = piece / wordBytes;
  size_t next = 0;
  for (size_t done = 0; done < size * lanes; done += piece) {
    SmallVector<Value> all;
    for (unsigned w = 0; w < words; ++w) {
      if (size >= 4) {
        all.push_back(parts[next++]);
        continue;
      }
      Value packed;
      for (unsigned i = 0; i < 4 / size; ++i) {
        Value part = parts[next++];
        Value wide = size == 2 ? halfOfWord(part, i) : convert<spirv::UConvertOp>(part, b.getI32Type());
        if (i && size == 1)
          wide = two<spirv::ShiftLeftLogicalOp>(wide, i32(int64_t(i) * size * 8));
        packed = packed ? two<spirv::BitwiseOrOp>(packed, wide) : wide;
      }
      all.push_back(packed);
    }
    Value whole = all[0];
    if (words > 1)
      whole = spirv::CompositeConstructOp::create(b, loc, VectorType::get({words}, all[0].getType()), all);
    storeAt(behind(address, done), whole, piece);
  }
}

bool Translation::memory(Operation &op) {
  if (auto place = dyn_cast<LLVM::GEPOp>(op)) {
    offset(place);
    return true;
  }
  if (auto array = dyn_cast<LLVM::AddressOfOp>(op)) {
    auto global = SymbolTable::lookupNearestSymbolFrom<LLVM::GlobalOp>(&op, array.getGlobalNameAttr());
    addresses[array] =
        isSharedSpace(global) ? Address{Address::Shared, {}, global} : Address{Address::Memory, {constants[global]}};
    return true;
  }
  const auto alignmentOf = [](std::optional<uint64_t> known, Type type) {
    return known ? static_cast<unsigned>(*known) : bytesOf(type);
  };
  if (auto read = dyn_cast<LLVM::LoadOp>(op)) {
    const Address from = addresses[read.getAddr()];
    Parts loaded = load(read.getType(), from, alignmentOf(read.getAlignment(), read.getType()));
    values[read] = std::move(loaded);
    return true;
  }
  if (auto write = dyn_cast<LLVM::StoreOp>(op)) {
    const Type type = write.getValue().getType();
    store(values[write.getValue()], type, addresses[write.getAddr()], alignmentOf(write.getAlignment(), type));
    return true;
  }
  // Masks of whole vectors are one branch; those of lanes one for each lane.
  const auto masked = [&](const Parts &mask, Type type, const Address &address, Parts *results,
                          llvm::function_ref<Parts(Type, const Address &, size_t, bool)> access) {
    const bool isWhole = address.places.size() <= 1 && llvm::all_equal(mask);
    if (isWhole) {
      Parts none;
      onlyIf(mask[0], [&] { return access(type, address, 0, true); }, results ? *results : none);
      return;
    }
    for (size_t i = 0; i < lanesOf(type); ++i) {
      Address place = lane(address, i);
      if (address.places.size() <= 1 && i > 0)
        place.places = {two<spirv::IAddOp>(address.places[0], integer(b.getI64Type(), int64_t(i) * bytesOf(type)))};
      Parts one;
      if (results)
        one = {(*results)[i]};
      onlyIf(mask[i], [&] { return access(getElementTypeOrSelf(type), place, i, false); }, one);
      if (results)
        (*results)[i] = one[0];
    }
  };
  const auto read = [&](Value result, Value mask, const Address &address, ValueRange passed, unsigned alignment) {
    if (address.kind != Address::Memory)
      return fail("a masked load of an array");
    Parts results = gather(passed);
    masked(values[mask], result.getType(), address, &results,
           [&](Type type, const Address &place, size_t, bool) { return load(type, place, alignment); });
    values[result] = results;
  };
  const auto write = [&](Value value, Value mask, const Address &address, unsigned alignment) {
    if (address.kind != Address::Memory)
      return fail("a masked store to an array");
    masked(values[mask], value.getType(), address, nullptr,
           [&](Type type, const Address &place, size_t at, bool isWhole) {
             store(isWhole ? values[value] : Parts{values[value][at]}, type, place, alignment);
             return Parts();
           });
  };
  if (auto access = dyn_cast<LLVM::MaskedLoadOp>(op)) {
    read(access.getResult(), access.getMask(), addresses[access.getData()], access.getPassThru(),
         access.getAlignment());
    return true;
  }
  if (auto access = dyn_cast<LLVM::masked_gather>(op)) {
    read(access.getResult(), access.getMask(), addresses[access.getPtrs()], access.getPassThru(),
         access.getAlignment());
    return true;
  }
  if (auto access = dyn_cast<LLVM::MaskedStoreOp>(op)) {
    write(access.getValue(), access.getMask(), addresses[access.getData()], access.getAlignment());
    return true;
  }
  if (auto access = dyn_cast<LLVM::masked_scatter>(op)) {
    write(access.getValue(), access.getMask(), addresses[access.getPtrs()], access.getAlignment());
    return true;
  }
  return false;
}

// Lines of rhs are columns.
void Translation::readMatrix(LLVM::CallIntrinsicOp op) {
  auto type = cast<spirv::CooperativeMatrixType>(scalar(op.getResult(0).getType()));
  const bool areRows = type.getUse() == spirv::CooperativeMatrixUseKHR::MatrixA;
  Value place = pointer(addresses[op.getArgs()[0]], b.getI16Type(), 0, 1);
  values[op.getResult(0)] = {spirv::KHRCooperativeMatrixLoadOp::create(
      b, loc, type, place,
      areRows ? spirv::CooperativeMatrixLayoutKHR::RowMajor : spirv::CooperativeMatrixLayoutKHR::ColumnMajor,
      values[op.getArgs()[1]][0], spirv::MemoryAccessAttr(), IntegerAttr())};
}

void Translation::writeMatrix(LLVM::CallIntrinsicOp op) {
  Value place = pointer(addresses[op.getArgs()[0]], b.getF32Type(), 0, 1);
  spirv::KHRCooperativeMatrixStoreOp::create(b, loc, place, values[op.getArgs()[2]][0],
                                             spirv::CooperativeMatrixLayoutKHR::RowMajor, values[op.getArgs()[1]][0],
                                             spirv::MemoryAccessAttr(), IntegerAttr());
}

} // namespace mortise::codegen
