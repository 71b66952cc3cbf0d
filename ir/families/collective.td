// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops in which several ranks take part. Each rank runs the same program on its own data. `groups` lists the ranks,
// `group_size` at a time: [0, 1, 2, 3] with size 2 gives the groups {0, 1} and {2, 3}. A collective works inside each
// group, and the order within a group matters. All collectives of a function have the same number of ranks.
//
// Every rank reaches the same collectives in the same order, so bodies of control flow contain none. Sums and products
// combine the members in the group's order, accumulate as reductions do (f64 in the interpreter) and round once, so all
// members get the same bits. StableHLO has groups of different sizes, and channels; here sizes are equal, and the order
// of ops takes the place of channels.
include "mortise/ir/dialect.td"

// Constraints: collective_c1: `groups` names each rank from 0 to below its length once; collective_c2: `group_size` is at least 1
// and divides the number of ranks.
class Mortise_CollectiveOp<string mnemonic> : Mortise_Op<mnemonic> {
  let opTraits = [MortiseTrait_Collective];
  let since = 2;
}
def Mortise_ReductionName : Mortise_Choice<["sum", "prod", "max", "min"]>;

def Mortise_AllReduceOp : Mortise_CollectiveOp<"all_reduce"> {
  let summary = "x combined over the group, element by element, on every member";
  let description = [{
    `reduction`: sum and prod (integers wrap), max and min (NaN wins; +0 is above -0). Constraints: collective_c1, collective_c2. The
    result has the type of x.
  }];
  let arguments = (ins Mortise_NumberTensor:$x, Mortise_ReductionName:$reduction, DenseI64ArrayAttr:$groups, I64Attr:$group_size);
  let results = (outs Mortise_NumberTensor:$result);
}
def Mortise_AllGatherOp : Mortise_CollectiveOp<"all_gather"> {
  let summary = "the group's x one after the other along `axis`, on every member";
  let description = [{
    Bits are kept. Constraints: collective_c1, collective_c2; all_gather_c1: 0 <= axis < rank. The result's extent along `axis` is x's times
    `group_size`.
  }];
  let arguments = (ins Mortise_Tensor:$x, I64Attr:$axis, DenseI64ArrayAttr:$groups, I64Attr:$group_size);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_ReduceScatterOp : Mortise_CollectiveOp<"reduce_scatter"> {
  let summary = "all_reduce, of which member i of the group keeps part i along `axis`";
  let description = [{
    Each element has the value that all_reduce gives. Constraints: collective_c1, collective_c2; reduce_scatter_c1: 0 <= axis < rank; reduce_scatter_c2:
    the extent along `axis` is a multiple of `group_size`, for all values of symbols. The result's extent is the quotient.
  }];
  let arguments = (ins Mortise_NumberTensor:$x, Mortise_ReductionName:$reduction, I64Attr:$axis, DenseI64ArrayAttr:$groups,
                       I64Attr:$group_size);
  let results = (outs Mortise_NumberTensor:$result);
}
def Mortise_AllToAllOp : Mortise_CollectiveOp<"all_to_all"> {
  let summary = "member i gets part i along `split_axis` of every member's x, one after the other along `concat_axis`";
  let description = [{
    Bits are kept. Constraints: collective_c1, collective_c2; all_to_all_c1: both axes are dimensions of x; all_to_all_c2: the extent along
    `split_axis` is a multiple of `group_size`, for all values of symbols. The result's extent there is the quotient; that along
    `concat_axis` is then multiplied by `group_size`, so that with one axis for both x keeps its shape.
  }];
  let arguments = (ins Mortise_Tensor:$x, I64Attr:$split_axis, I64Attr:$concat_axis, DenseI64ArrayAttr:$groups,
                       I64Attr:$group_size);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_CollectiveBroadcastOp : Mortise_CollectiveOp<"collective_broadcast"> {
  let summary = "the x of the first rank of the group, on every member";
  let description = [{Bits are kept. Constraints: collective_c1, collective_c2. The result has the type of x.}];
  let arguments = (ins Mortise_Tensor:$x, DenseI64ArrayAttr:$groups, I64Attr:$group_size);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_CollectivePermuteOp : Mortise_CollectiveOp<"collective_permute"> {
  let summary = "x of another rank: `pairs` is source, target, source, target, ...";
  let description = [{
    A rank that is no target gets zeros (false for i1). Bits are kept. Constraints: collective_permute_c1: `pairs` has an even number
    of entries, each from 0 to below `rank_count`, no rank twice as source and none twice as target. The result has the type of x.
  }];
  let arguments = (ins Mortise_Tensor:$x, DenseI64ArrayAttr:$pairs, I64Attr:$rank_count);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_RankOp : Mortise_CollectiveOp<"rank"> {
  let summary = "the number of this rank, from 0 to below `rank_count`: an i64 of rank 0";
  let description = [{StableHLO's partition_id, which is a ui32. Constraint: rank_c1: `rank_count` is at least 1.}];
  let arguments = (ins I64Attr:$rank_count);
  let results = (outs Mortise_TensorOf<[I64]>:$result);
}
