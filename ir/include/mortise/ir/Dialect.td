// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dialect, and the classes that every op family builds on.
#ifndef MORTISE_IR_DIALECT_TD
#define MORTISE_IR_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

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

    Every extent is a number. Symbolic extents (`?`) are refused until the dialect has a dimension encoding.
  }];
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void addAttentionOps();
    void addContractionOps();
    void addElementwiseOps();
    void addIndexingOps();
    void addNormalisationOps();
    void addReductionOps();
    void addShapeOps();
    void addWindowOps();
  }];
}

// Floats, integers and booleans. i1 is a boolean; ui8 is the one unsigned type.
def Mortise_Float : AnyTypeOf<[F64, F32, F16, BF16, F8E4M3FN, F8E5M2], "float">;
def Mortise_Int : AnyTypeOf<[I64, I32, I16, I8, I<4>, UI8], "integer">;
def Mortise_Index : AnyTypeOf<[I64, I32], "i64 or i32">;
def Mortise_Number : AnyTypeOf<[Mortise_Float, Mortise_Int], "number">;
def Mortise_Element : AnyTypeOf<[Mortise_Float, Mortise_Int, I1], "element">;

def Mortise_Tensor : StaticShapeTensorOf<[Mortise_Element]>;
def Mortise_FloatTensor : StaticShapeTensorOf<[Mortise_Float]>;
def Mortise_NumberTensor : StaticShapeTensorOf<[Mortise_Number]>;
def Mortise_BitsTensor : StaticShapeTensorOf<[Mortise_Int, I1]>;
def Mortise_IndexTensor : StaticShapeTensorOf<[Mortise_Index]>;
def Mortise_BoolTensor : StaticShapeTensorOf<[I1]>;

// A string attribute restricted to `names`.
class Mortise_Choice<list<string> names>
    : ConfinedAttr<StrAttr, [AttrConstraint<
          Or<!foreach(n, names, CPred<"::llvm::cast<::mlir::StringAttr>($_self).getValue() == \"" # n # "\"">)>,
          "that is one of: " # !interleave(names, ", ")>]>;

// What the host knows about any op without naming it. All methods are static.
def Mortise_OpInterface : OpInterface<"MortiseOp"> {
  let cppNamespace = "::mortise::ir";
  let methods = [
    StaticInterfaceMethod<"The opset that introduced the op.", "uint32_t", "getSince">,
    StaticInterfaceMethod<"Operand names in order, each followed by '?' (optional), '*' (any number) or nothing, and ','.",
                          "::llvm::StringRef", "getOperandSlots">,
    StaticInterfaceMethod<"Attributes in order: name '=' C++ storage class ','.", "::llvm::StringRef", "getAttributeSlots">,
    StaticInterfaceMethod<"Has a decomposition (mortise/ir/Decompose.h).", "bool", "isComposite">,
  ];
}

// A core op: pure, one result whose type follows from operands and attributes: `infer` in the family's .cpp, which
// is also the verifier of everything beyond operand and attribute kinds. `since` is the opset that introduced it.
class Mortise_Op<string mnemonic, list<Trait> traits = []>
    : Op<Mortise_Dialect, mnemonic,
         !listconcat([Pure, Mortise_OpInterface, DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)> {
  int since = 1;
  bit composite = 0;
  string operandSlots = !foldl("", !range(!size(arguments)), acc, i,
      acc # !if(!initialized(!getdagarg<Attr>(arguments, i)), "",
                !getdagname(arguments, i) #
                !if(!initialized(!getdagarg<Optional>(arguments, i)), "?",
                    !if(!initialized(!getdagarg<Variadic>(arguments, i)), "*", "")) # ","));
  string attributeSlots = !foldl("", !range(!size(arguments)), acc, i,
      acc # !if(!initialized(!getdagarg<Attr>(arguments, i)),
                !getdagname(arguments, i) # "=" # !cast<string>(!getdagarg<Attr>(arguments, i).storageType) # ",", ""));
  // Overridden where a whole class of ops infers alike.
  code inferDeclaration = [{
    static ::mlir::FailureOr<::mlir::RankedTensorType> infer(Adaptor op, const ::mortise::ir::Report &report);
  }];
  let extraClassDeclaration = [{
    static uint32_t getSince() { return }] # since # [{; }
    static ::llvm::StringRef getOperandSlots() { return "}] # operandSlots # [{"; }
    static ::llvm::StringRef getAttributeSlots() { return "}] # attributeSlots # [{"; }
    static bool isComposite() { return }] # composite # [{; }
  }] # inferDeclaration;
  code foldDefinition = "";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location, ::mlir::ValueRange operands,
        ::mlir::DictionaryAttr attributes, ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      ::mortise::ir::Report report{location, getOperationName()};
      return report.accept(infer(Adaptor(operands, attributes, properties, regions), report), types);
    }
  }] # foldDefinition;
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

// An op whose operands and result have one type; what all elementwise ops share, constant folding included.
class Mortise_SameTypeOp<string mnemonic, list<Trait> traits = []> : Mortise_Op<mnemonic, traits> {
  let inferDeclaration = [{
    static ::mlir::FailureOr<::mlir::RankedTensorType> infer(Adaptor op, const ::mortise::ir::Report &report) {
      return ::mortise::ir::sameType(op.getOperands(), report);
    }
  }];
}

// An op that has a decomposition into core ops.
class Mortise_CompositeOp<string mnemonic, list<Trait> traits = []> : Mortise_Op<mnemonic, traits> {
  let composite = 1;
}
class Mortise_SameTypeCompositeOp<string mnemonic, list<Trait> traits = []> : Mortise_SameTypeOp<mnemonic, traits> {
  let composite = 1;
}

#endif
