# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lit test of the elementwise ops that the unreleased opset adds: text, generic text, bytecode and portable format.

When an opset was released (ir/portable/opset/N.txt), its test is no longer generated and does not change."""

from dialect import ROOT, dtypes, newest_opset, ops

HEAD = """// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Made from ir/families/*.td by ./dev docs; do not edit.
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @elementwise
"""


def new_ops() -> list[dict]:
    """The new elementwise ops without attributes whose operands and results have one type."""
    return [op for op in ops() if op["since"] == newest_opset() and "Elementwise" in op["traits"] and not op["attributes"]
            and len({slot["dtypes"] for slot in op["operands"] + op["results"]}) == 1]


def files() -> dict:
    opset = newest_opset()
    if (ROOT / f"ir/portable/opset/{opset}.txt").exists() or not new_ops():
        return {}
    return {f"ir/test/elementwise/opset{opset}.mlir": test}


def test() -> str:
    arguments, lines, results, types = [], [], [], []
    for number, op in enumerate(new_ops()):
        allowed = op["results"][0]["dtypes"]
        element = next(row["name"] for row in dtypes()[1:] if allowed >> row["number"] & 1)  # f32 when the op takes it
        tensor = f"tensor<2x3x{element}>"
        names = [f"%x{number}_{i}" for i in range(len(op["operands"]))]
        arguments += [f"{name}: {tensor}" for name in names]
        lines.append(f"  // CHECK: mortise.{op['name']} %")
        lines.append(f"  %{number} = mortise.{op['name']} {', '.join(names)} : ({', '.join([tensor] * len(names))}) -> {tensor}")
        results.append(f"%{number}")
        types.append(tensor)
    body = "\n".join(lines)
    return (f"{HEAD}func.func @elementwise({', '.join(arguments)}) -> ({', '.join(types)}) {{\n{body}\n"
            f"  return {', '.join(results)} : {', '.join(types)}\n}}\n")
