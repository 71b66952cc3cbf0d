// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One entry is a pass's declaration, flag, base class and documentation. A pass NAME-OF-PASS lives in name_of_pass.cpp and is
// tested by test/name-of-pass.mlir.
#ifndef MORTISE_PASSES_PASSES_TD
#define MORTISE_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def RaiseComposites : Pass<"raise-composites"> {
  let summary = "raises ops that spell out a composite op to that op";
  let description = [{
    Models write out norms, activations and masks in small steps; backends have one fast kernel for each. Runs after
    canonicalize and merge-equal because it recognises subexpressions by identity. A matched op that has other users stays.

    Before:
    ```mlir
    %0 = "mortise.logistic"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "mortise.mul"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    After:
    ```mlir
    %1 = "mortise.silu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    Also: relu, gelu (both forms), rms_norm, softmax, linear from dot, bias and reshapes, i1 attention masks from
    additive ones.
  }];
}

def MergeEqual : Pass<"merge-equal"> {
  let summary = "equal ops become one";
  let description = [{
    Does what MLIR's cse does, in a fifth of the time, for functions of one block whose ops have no effects.
    Runs before raise-composites because that pass compares subexpressions by identity, and after it so that all layers
    share one mask.

    Before:
    ```mlir
    %0 = "mortise.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "mortise.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "mortise.mul"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    After: `mul` reads `%0` twice.
  }];
}

def SinkConstants : Pass<"sink-constants"> {
  let summary = "a copy of each literal for each of its users";
  let description = [{
    A broadcast of a literal is copied in the same way. A region that contains a user can then contain the literal too, and
    no literal is shared by two regions. Runs last because merge-equal would undo it.

    Before:
    ```mlir
    %c = "mortise.constant"() <{value = dense<1.0> : tensor<4xf32>}> : () -> tensor<4xf32>
    %0 = "mortise.add"(%x, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "mortise.mul"(%0, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    After: a constant of its own stands before `add` and before `mul`.
  }];
}

def VerifyStage : Pass<"verify-stage"> {
  let summary = "the check at the border of two stages";
  let description = [{
    Runs MLIR's verifier and checks that only mortise ops are left. It runs between stages and not after every pass
    because it takes as long as a pass does; `mortise-opt` runs MLIR's verifier after every pass.
  }];
  let options = [Option<"after", "after", "std::string", "\"the frontend\"", "the stage that ended, for messages">];
}

#endif
