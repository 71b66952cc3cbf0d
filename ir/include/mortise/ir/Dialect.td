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
  }];
}

// Floats, integers and booleans. i1 is a boolean; ui8 is the one unsigned type.
def Mortise_Float : AnyTypeOf<[F64, F32, F16, BF16, F8E4M3FN, F8E5M2], "float">;
def Mortise_Int : AnyTypeOf<[I64, I32, I16, I8, I<4>, UI8], "integer">;
def Mortise_Index : AnyTypeOf<[I64, I32], "i64 or i32">;
def Mortise_Number : AnyTypeOf<[Mortise_Float, Mortise_Int], "number">;
def Mortise_Element : AnyTypeOf<[Mortise_Float, Mortise_Int, I1], "element">;

def Mortise_Tensor : RankedTensorOf<[Mortise_Element]>;
def Mortise_FloatTensor : RankedTensorOf<[Mortise_Float]>;
def Mortise_NumberTensor : RankedTensorOf<[Mortise_Number]>;
def Mortise_BitsTensor : RankedTensorOf<[Mortise_Int, I1]>;
def Mortise_IndexTensor : RankedTensorOf<[Mortise_Index]>;
def Mortise_BoolTensor : RankedTensorOf<[I1]>;

// A string attribute restricted to `names`.
class Mortise_Choice<list<string> names>
    : ConfinedAttr<StrAttr, [AttrConstraint<
          Or<!foreach(n, names, CPred<"::llvm::cast<::mlir::StringAttr>($_self).getValue() == \"" # n # "\"">)>,
          "one of: " # !interleave(names, ", ")>]>;

// A core op: pure, one result whose type follows from operands and attributes (`inferReturnTypes` in the
// family's .cpp). `since` is the opset that introduced it.
class Mortise_Op<string mnemonic, list<Trait> traits = []>
    : Op<Mortise_Dialect, mnemonic,
         !listconcat([Pure, DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)> {
  int since = 1;
  let hasVerifier = 0;
}

// An op that has a decomposition into core ops (ir/Decompose.cpp).
class Mortise_CompositeOp<string mnemonic, list<Trait> traits = []> : Mortise_Op<mnemonic, traits>;

#endif
