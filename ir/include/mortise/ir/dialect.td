// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dialect, and the classes that every op family builds on.
#ifndef MORTISE_IR_DIALECT_TD
#define MORTISE_IR_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/TensorEncoding.td"

def Mortise_Dialect : Dialect {
  let name = "mortise";
  let cppNamespace = "::mortise::ir";
  let summary = "Tensor programs for any backend.";
  let description = [{
    Values are tensors; ops are pure. Shapes are explicit: elementwise ops take operands of one shape, and
    `broadcast` says how a smaller one is repeated. A core op follows the public StableHLO specification where
    that has the op, and says where it differs. A composite op stands for a subgraph of core ops that
    `decompose` gives; backends may take either.

    Numeric rules, unless an op says otherwise: floating-point ops round to nearest even; sums and products
    accumulate in at least f32 (f64 for f64), and integers in their own type; integer overflow wraps; NaN
    operands give NaN; the sign of zero follows IEEE 754.

    An extent is a number or an expression over named symbols: `?` in the type, and the expression in its encoding,
    `tensor<?x64xf32, #mortise.dims<#symbols, [b*s, 64]>>`. `#symbols` is the one table of the function's symbols, with
    the range of each symbol and a number that it is a multiple of. Two extents are equal when their expressions are
    equal. A verifier refuses what it cannot prove for all values of the symbols.
  }];
  let hasConstantMaterializer = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void addAttentionOps();
    void addCollectiveOps();
    void addContractionOps();
    void addControlFlowOps();
    void addElementwiseOps();
    void addIndexingOps();
    void addNormalisationOps();
    void addQuantisationOps();
    void addRandomOps();
    void addReductionOps();
    void addShapeOps();
    void addVendorOps();
    void addWindowOps();
  }];
}

// Floats, integers and booleans. i1 is a boolean.
def Mortise_Float : AnyTypeOf<[F64, F32, F16, BF16, F8E4M3FN, F8E5M2], "float">;
def Mortise_Int : AnyTypeOf<[I64, I32, I16, I8, I<4>, UI8, UI16], "integer">;
def Mortise_Index : AnyTypeOf<[I64, I32], "i64 or i32">;
def Mortise_Number : AnyTypeOf<[Mortise_Float, Mortise_Int], "number">;
def Mortise_Element : AnyTypeOf<[Mortise_Float, Mortise_Int, I1], "element">;

// A ranked tensor, each extent of which is a number or has an expression in the encoding.
class Mortise_TensorOf<list<Type> elements>
    : RankedTensorOf<elements, [CPred<"::mortise::ir::hasKnownExtents($_self)">], "tensor of known extents"> {
  list<Type> elementTypes = elements; // read by tools/generate
}
def Mortise_Tensor : Mortise_TensorOf<[Mortise_Element]>;
def Mortise_FloatTensor : Mortise_TensorOf<[Mortise_Float]>;
def Mortise_NumberTensor : Mortise_TensorOf<[Mortise_Number]>;
def Mortise_BitsTensor : Mortise_TensorOf<[Mortise_Int, I1]>;
def Mortise_IndexTensor : Mortise_TensorOf<[Mortise_Index]>;
def Mortise_BoolTensor : Mortise_TensorOf<[I1]>;

class Mortise_AttrDef<string name, string mnemonicName, list<Trait> traits = []>
    : AttrDef<Mortise_Dialect, name, traits> {
  let mnemonic = mnemonicName;
  let hasCustomAssemblyFormat = 1;
}
def Mortise_SymbolsAttr : Mortise_AttrDef<"Symbols", "symbols"> {
  let summary = "the symbols of a function: `#mortise.symbols<b in [2, 64], s in [8, *] step 8>`";
  let description = [{
    `*` means that there is no upper bound. Every value is a multiple of the step, which is 1 when it is not written. A
    symbol's number is its position.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t", "min, max and divisor of each">:$facts);
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mortise::SymbolRange> getRanges() const;
  }];
}
// Also the encoding of types with symbolic extents.
def Mortise_DimsAttr : Mortise_AttrDef<"Dims", "dims", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "extents or positions: `#mortise.dims<[2, 3]>`, `#mortise.dims<#symbols, [b, 4*s + 1]>`";
  let description = [{
    Expressions are sums of products of symbols, and of `floordiv`, `mod`, `min` and `max` of two expressions, in the one
    normal form of mortise/dim.hpp.
  }];
  // `symbols` is NULL and `program` empty when all entries are numbers. `program` holds, for each entry, its number of
  // steps, then op and value of each step.
  let parameters = (ins "::mortise::ir::SymbolsAttr":$symbols, ArrayRefParameter<"int64_t">:$numbers,
                        ArrayRefParameter<"int64_t">:$program);
  let builders = [AttrBuilder<(ins "::llvm::ArrayRef<int64_t>":$numbers)>,
                  AttrBuilder<(ins "::llvm::ArrayRef<::mortise::Dim>":$dims, "::mortise::ir::SymbolsAttr":$symbols)>];
  let extraClassDeclaration = [{
    bool isStatic() const { return !getSymbols(); }
    ::llvm::SmallVector<::mortise::Dim> getDims() const;
    size_t size() const { return getNumbers().size(); }
  }];
}
// An attribute of extents or positions, which may be symbolic. The getter returns numbers, kDynamic for a symbolic entry.
def Mortise_Dims : Attr<CPred<"::llvm::isa<::mortise::ir::DimsAttr>($_self)">, "extents (#mortise.dims)"> {
  let storageType = "::mortise::ir::DimsAttr";
  let returnType = "::llvm::ArrayRef<int64_t>";
  let convertFromStorage = "$_self.getNumbers()";
  let constBuilderCall = "::mortise::ir::DimsAttr::get($_builder.getContext(), $0)";
}

// A string attribute restricted to `names`.
class Mortise_Choice<list<string> names>
    : ConfinedAttr<StrAttr, [AttrConstraint<
          Or<!foreach(n, names, CPred<"::llvm::cast<::mlir::StringAttr>($_self).getValue() == \"" # n # "\"">)>,
          "that is one of: " # !interleave(names, ", ")>]>;

// What the host can ask any op without knowing its name. All methods but `expand` are static.
def Mortise_OpInterface : OpInterface<"MortiseOp"> {
  let cppNamespace = "::mortise::ir";
  let methods = [
    StaticInterfaceMethod<"The opset that introduced the op.", "uint32_t", "getSince">,
    StaticInterfaceMethod<"Operand names in order, each followed by '?' (optional), '*' (any number) or nothing, and ','.",
                          "::llvm::StringRef", "getOperandSlots">,
    StaticInterfaceMethod<"Attributes in order: name '=' C++ storage class ','.", "::llvm::StringRef", "getAttributeSlots">,
    StaticInterfaceMethod<"Has a decomposition (mortise/ir/decompose.hpp).", "bool", "isComposite">,
    StaticInterfaceMethod<"Bodies: how many, or -1 for any number.", "int32_t", "getBodySlots">,
    InterfaceMethod<"What a composite op means in terms of others: a value for each result, converted to its element "
                    "type by `decompose`. Other ops give nothing.",
                    "::mortise::ir::Values", "expand", (ins "::mortise::ir::Writer &":$write), "", [{ return {}; }]>,
  ];
}

// A property that ops of one kind share, for code that decides by kind and not by name. The SDK's op table
// (mortise/ops.h, made by tools/generate) has a bit for each.
class Mortise_OpTrait<string text> { string summary = text; }
def MortiseTrait_Composite : Mortise_OpTrait<"has a decomposition into other ops">; // set by Mortise_CompositeOp
def MortiseTrait_Elementwise : Mortise_OpTrait<"each result element depends on the operands' elements at its own position only">;
def MortiseTrait_Creation : Mortise_OpTrait<"has no operands: attributes alone say what the result holds">;
def MortiseTrait_Movement : Mortise_OpTrait<"moves or repeats elements; positions follow from attributes and shapes">;
def MortiseTrait_View : Mortise_OpTrait<"where strides allow it, the result is the operand's memory under other extents, strides and offset">;
def MortiseTrait_Indexing : Mortise_OpTrait<"reads or writes at positions that an operand holds, or finds such positions">;
def MortiseTrait_Contraction : Mortise_OpTrait<"sums products of two operands' elements: matrix products, convolutions, attention">;
def MortiseTrait_Window : Mortise_OpTrait<"slides a window over the spatial dimensions">;
def MortiseTrait_Reduction : Mortise_OpTrait<"many elements become one; their axes disappear">;
def MortiseTrait_Running : Mortise_OpTrait<"a result element depends on all elements up to its own position along one axis">;
def MortiseTrait_Sort : Mortise_OpTrait<"orders the elements along one axis">;
def MortiseTrait_Normalisation : Mortise_OpTrait<"reduces rows or groups, and computes each result element from its own row or group">;
def MortiseTrait_Random : Mortise_OpTrait<"a function of a key and an offset that looks random">;
def MortiseTrait_Quantisation : Mortise_OpTrait<"converts between numbers and their quantised form, or computes on the latter">;
def MortiseTrait_ControlFlow : Mortise_OpTrait<"runs its bodies: graphs of their own">;
def MortiseTrait_Collective : Mortise_OpTrait<"exchanges data between ranks, or depends on the rank">;

// A core op. It is pure, and the types of its results follow from operands, attributes and bodies: `infer` in the family's
// .cpp computes them, and verifies everything beyond operand and attribute kinds. `since` is the opset that introduced it.
class Mortise_Op<string mnemonic, list<Trait> traits = []>
    : Op<Mortise_Dialect, mnemonic,
         !listconcat([Pure, Mortise_OpInterface, DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)> {
  int since = 1;
  bit composite = 0;
  int bodies = 0;
  list<Mortise_OpTrait> opTraits = [];
  string operandSlots = !foldl("", !range(!size(arguments)), acc, i,
      acc # !if(!initialized(!getdagarg<Attr>(arguments, i)), "",
                !getdagname(arguments, i) #
                !if(!initialized(!getdagarg<Optional>(arguments, i)), "?",
                    !if(!initialized(!getdagarg<Variadic>(arguments, i)), "*", "")) # ","));
  string attributeSlots = !foldl("", !range(!size(arguments)), acc, i,
      acc # !if(!initialized(!getdagarg<Attr>(arguments, i)),
                !getdagname(arguments, i) # "=" # !cast<string>(!getdagarg<Attr>(arguments, i).storageType) # ",", ""));
  // Overridden by classes whose ops share one `infer`.
  code inferDeclaration = [{
    static ::mortise::ir::Inferred infer(Adaptor op, const ::mortise::ir::Report &report);
  }];
  code expandDeclaration = "";
  let extraClassDeclaration = [{
    static uint32_t getSince() { return }] # since # [{; }
    static ::llvm::StringRef getOperandSlots() { return "}] # operandSlots # [{"; }
    static ::llvm::StringRef getAttributeSlots() { return "}] # attributeSlots # [{"; }
    static bool isComposite() { return }] # composite # [{; }
    static int32_t getBodySlots() { return }] # bodies # [{; }
  }] # inferDeclaration # expandDeclaration;
  code foldDefinition = "";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location, ::mlir::ValueRange operands,
        ::mlir::DictionaryAttr attributes, ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      ::mortise::ir::Report report(location, getOperationName(), operands);
      return report.accept(infer(Adaptor(operands, attributes, properties, regions), report), types);
    }
  }] # foldDefinition;
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

// An op whose operands and result have one type.
class Mortise_SameTypeOp<string mnemonic, list<Trait> traits = []> : Mortise_Op<mnemonic, traits> {
  let inferDeclaration = [{
    static ::mortise::ir::Inferred infer(Adaptor op, const ::mortise::ir::Report &report) {
      return ::mortise::ir::sameType(op.getOperands(), report);
    }
  }];
}

// An op with a decomposition, which is `expand` in the family's .cpp.
class Mortise_CompositeOp<string mnemonic, list<Trait> traits = []> : Mortise_Op<mnemonic, traits> {
  let composite = 1;
  let expandDeclaration = [{ ::mortise::ir::Values expand(::mortise::ir::Writer &write); }];
}
class Mortise_SameTypeCompositeOp<string mnemonic, list<Trait> traits = []> : Mortise_SameTypeOp<mnemonic, traits> {
  let composite = 1;
  let expandDeclaration = [{ ::mortise::ir::Values expand(::mortise::ir::Writer &write); }];
}

#endif
