// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics --test-portable-round-trip

// expected-error @+1 {{'func.call' is not a mortise op, so it has no portable form}}
module {
  func.func private @callee()
  func.func @foreign() {
    func.call @callee() : () -> ()
    return
  }
}

// -----

// expected-error @+1 {{the module must have one public function, found 'a' and 'b'}}
module {
  func.func @a() {
    return
  }
  func.func @b() {
    return
  }
}

// -----

// expected-error @+1 {{output 0 has mortise.alias 1: expected the number of an input of its type}}
module {
  func.func @alias(%x: tensor<f32>) -> (tensor<f32> {mortise.alias = 1 : i64}) {
    return %x : tensor<f32>
  }
}

// -----

// expected-error @+1 {{input 0 has type index: expected a tensor of a type of ours whose extents are known}}
module {
  func.func @types(%x: index) {
    return
  }
}
