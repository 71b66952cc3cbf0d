// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions over `axes`, which disappear from the result; running reductions and sorting along one `axis`.
//
// The order of elements for argmax, sort and similar ops: a NaN is above all numbers and equal to another NaN, -0 equals
// +0, false is below true. (max, min, reduce_max and reduce_min put -0 below +0 instead.)
include "mortise/ir/dialect.td"

// StableHLO's reduce, with the body fixed.
class Mortise_Reduce<string mnemonic, Type operand> : Mortise_Op<mnemonic> {
  let opTraits = [MortiseTrait_Reduction];
  let arguments = (ins operand:$operand, DenseI64ArrayAttr:$axes);
  let results = (outs operand:$result);
  let inferDeclaration = [{
    static ::mortise::ir::Inferred infer(Adaptor op, const ::mortise::ir::Report &report) {
      return ::mortise::ir::reduced(op.getOperand(), op.getAxes(), report.at("reduce_c1"));
    }
  }];
  let foldDefinition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor) {
      return getAxes().empty() ? ::mlir::OpFoldResult(getOperand()) : ::mlir::OpFoldResult();
    }
  }];
  let hasFolder = 1;
}
def Mortise_ReduceSumOp : Mortise_Reduce<"reduce_sum", Mortise_NumberTensor> {
  let summary = "sum; of nothing, 0";
  let description = [{
    (reduce_c1) `axes` is strictly ascending and in range, in all reductions. Floats are summed in at least f32 (f64 for
    f64) and rounded once, in the backend's order (StableHLO: the same freedom, but the body's type); integers wrap.
  }];
}
def Mortise_ReduceProdOp : Mortise_Reduce<"reduce_prod", Mortise_NumberTensor> {
  let summary = "product; of nothing, 1";
  let description = [{Accumulates as reduce_sum does.}];
}
def Mortise_ReduceMaxOp : Mortise_Reduce<"reduce_max", Mortise_Tensor> {
  let summary = "largest; for i1, any";
  let description = [{
    NaN wins, and +0 is above -0. Without elements the result is -inf, the lowest number of a type without infinities, or false.
  }];
}
def Mortise_ReduceMinOp : Mortise_Reduce<"reduce_min", Mortise_Tensor> {
  let summary = "smallest; for i1, all";
  let description = [{
    NaN wins, and -0 is below +0. Without elements the result is +inf, the highest number of a type without infinities, or true.
  }];
}
def Mortise_MeanOp : Mortise_CompositeOp<"mean"> {
  let opTraits = [MortiseTrait_Reduction];
  let summary = "reduce_sum divided by the number of elements; of nothing, NaN";
  let description = [{(mean_c1) `axes` is strictly ascending and in range. Rounds once.}];
  let arguments = (ins Mortise_FloatTensor:$operand, DenseI64ArrayAttr:$axes);
  let results = (outs Mortise_FloatTensor:$result);
}

class Mortise_Arg<string mnemonic> : Mortise_Op<mnemonic> {
  let opTraits = [MortiseTrait_Reduction];
  let arguments = (ins Mortise_NumberTensor:$operand, I64Attr:$axis);
  let results = (outs Mortise_TensorOf<[I64]>:$result);
  let inferDeclaration = [{
    static ::mortise::ir::Inferred infer(Adaptor op, const ::mortise::ir::Report &report) {
      return ::mortise::ir::argument(op.getOperand(), op.getAxis(), report);
    }
  }];
}
def Mortise_ArgmaxOp : Mortise_Arg<"argmax"> {
  let summary = "index of the largest element along `axis`, which disappears";
  let description = [{
    (arg_c1) 0 <= axis < rank. (arg_c2) The extent along `axis` is at least 1, unless the result is empty. Of several largest
    elements the first is chosen; a NaN is the largest. StableHLO has no such op; there it is a reduce of pairs.
  }];
}
def Mortise_ArgminOp : Mortise_Arg<"argmin"> {
  let summary = "index of the smallest element along `axis`, which disappears";
  let description = [{
    Constraints as argmax. Of several smallest elements the first is chosen. As in PyTorch, a NaN is the smallest here, so it is not overlooked.
  }];
  let since = 2;
}

// result[i] depends on the elements 0 .. i along `axis`. The operand may be empty.
class Mortise_Running<string mnemonic, Type operand> : Mortise_Op<mnemonic> {
  let opTraits = [MortiseTrait_Running];
  let arguments = (ins operand:$operand, I64Attr:$axis);
  let results = (outs operand:$result);
  let inferDeclaration = [{
    static ::mortise::ir::Inferred infer(Adaptor op, const ::mortise::ir::Report &report) {
      return ::mortise::ir::running(op.getOperand(), op.getAxis(), report);
    }
  }];
}
def Mortise_CumsumOp : Mortise_Running<"cumsum", Mortise_NumberTensor> {
  let summary = "running sum along `axis`, the element itself included";
  let description = [{
    (running_c1) 0 <= axis < rank, in all running ops and sort. Floats are summed in at least f32 (f64 for f64), and every element of the
    result is rounded once; integers wrap. In StableHLO this is a reduce_window.
  }];
}
let since = 2 in {
def Mortise_CumprodOp : Mortise_Running<"cumprod", Mortise_NumberTensor> {
  let summary = "running product along `axis`, the element itself included";
  let description = [{Accumulates and rounds as cumsum does: floats in at least f32, integers wrap. 0 times infinity is NaN from there on.}];
}
def Mortise_CumlogsumexpOp : Mortise_Running<"cumlogsumexp", Mortise_FloatTensor> {
  let summary = "running log(sum(exp(x))) along `axis`";
  let description = [{
    Does not overflow, because the running maximum is subtracted first. Elements -inf add nothing, +inf gives +inf, NaN gives NaN from
    there on. Computes in at least f32 (f64 for f64) and rounds every element of the result once. It is a core op because a decomposition
    that subtracts one maximum from all elements would lose early elements far below it.
  }];
}
}

class Mortise_RunningExtreme<string mnemonic> : Mortise_Op<mnemonic> {
  let opTraits = [MortiseTrait_Running];
  let arguments = (ins Mortise_Tensor:$operand, I64Attr:$axis);
  let results = (outs Mortise_Tensor:$values, Mortise_TensorOf<[I64]>:$indices);
  let inferDeclaration = [{
    static ::mortise::ir::Inferred infer(Adaptor op, const ::mortise::ir::Report &report) {
      return ::mortise::ir::runningExtreme(op.getOperand(), op.getAxis(), report);
    }
  }];
  let since = 2;
}
def Mortise_CummaxOp : Mortise_RunningExtreme<"cummax"> {
  let summary = "running maximum along `axis`, and where it stands";
  let description = [{
    Constraints as cumsum. indices[i] is the last index, at most i, of the largest element so far, in the order of this
    family (so once a NaN was seen, the index is that of the last NaN); values[i] is that element, with its sign of zero. As in PyTorch.
  }];
}
def Mortise_CumminOp : Mortise_RunningExtreme<"cummin"> {
  let summary = "running minimum along `axis`, and where it stands";
  let description = [{
    As cummax, with the smallest element; a NaN is the smallest here.
  }];
}

let since = 2 in {
def Mortise_SortOp : Mortise_Op<"sort"> {
  let opTraits = [MortiseTrait_Sort];
  let summary = "the elements along `axis` in ascending order, and where each was";
  let description = [{
    Constraints as cumsum. Sorts in the order of this family; `descending` reverses the order, so NaN comes first.
    values[i] = operand[indices[i]], with the bits of the operand. With `stable`, equal elements keep their order, in descending
    order too; otherwise the backend chooses their order. StableHLO's sort takes a comparator and several operands; here, apply
    `take_along` with the indices to the other operands.
  }];
  let arguments = (ins Mortise_Tensor:$operand, I64Attr:$axis, BoolAttr:$descending, BoolAttr:$stable);
  let results = (outs Mortise_Tensor:$values, Mortise_TensorOf<[I64]>:$indices);
}
def Mortise_TopKOp : Mortise_CompositeOp<"top_k"> {
  let opTraits = [MortiseTrait_Sort];
  let summary = "the k largest (or smallest) elements along `axis`, and where each was";
  let description = [{
    (top_k_c1) 0 <= axis < rank. (top_k_c2) 0 <= k <= the extent along `axis`. The first k elements of a stable sort, descending if
    `largest`: of equal elements, those with lower indices are chosen. `sorted` false leaves the order of the k elements to the
    backend. CHLO's top_k is this op along the last axis, largest and sorted.
  }];
  let arguments = (ins Mortise_Tensor:$operand, I64Attr:$k, I64Attr:$axis, BoolAttr:$largest, BoolAttr:$sorted);
  let results = (outs Mortise_Tensor:$values, Mortise_TensorOf<[I64]>:$indices);
}
}
