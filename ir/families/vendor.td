// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that the language does not have: a vendor's plugin declares them (`MortiseOpDeclaration` in plugin.h), with a name such as
// `acme.swizzle`, operands, attributes and the function that gives the types of results. In text such a node is
//     %1 = mortise.vendor "acme.swizzle"(%0) {times = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
// It is pure, has no decomposition, and the reference interpreter does not compute it. When a graph is compiled, its declaration
// must be that of an installed plugin, and its result types those that the plugin infers; only plugins that declare it are asked
// to run it.
include "mortise/ir/dialect.td"

def Mortise_VendorOp : Op<Mortise_Dialect, "vendor", [Pure]> {
  let summary = "an op that a plugin declares";
  let description = [{
    `parameters` are the op's attributes: booleans, i64, f64, strings, lists of i64 or f64 (#mortise.dims where they may be
    symbolic), and small literals.

    Constraints:
    * vendor_c1: the name is a vendor's word, a dot and the op's, of a-z, 0-9 and '_', a letter first; the word is not "mortise".
    * vendor_c2: each parameter has a form in the portable format.
    * vendor_c3: at least one result.
  }];
  let arguments = (ins StrAttr:$op_name, Variadic<Mortise_Tensor>:$inputs, DictionaryAttr:$parameters);
  let results = (outs Variadic<Mortise_Tensor>:$outputs);
  let assemblyFormat = [{
    $op_name `(` $inputs `)` $parameters attr-dict-with-keyword `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}
