#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the portable format knows of the dialect: from its .td files to a table that needs no LLVM.

ops.py: writes ops.inc, which is committed so that building the format needs nothing else; run it after a change of an op.
ops.py --check: says whether ops.inc is as it would be written (a test).
ops.py --record: prints the same as plain text: what opset/N.txt holds.
"""

import json
import subprocess
import sys
from pathlib import Path

KINDS = {"::mlir::BoolAttr": "BOOL", "::mlir::IntegerAttr": "I64", "::mlir::FloatAttr": "F64", "::mlir::StringAttr": "STRING",
         "::mlir::DenseI64ArrayAttr": "I64_ARRAY", "::mortise::ir::DimsAttr": "I64_ARRAY",
         "::mlir::DenseF64ArrayAttr": "F64_ARRAY", "::mlir::ElementsAttr": "TENSOR"}
HERE = Path(__file__).resolve().parent
LLVM = Path("/usr/lib/llvm-22")
CHOICE = "is one of: "  # of Mortise_Choice's summary


def read(family: Path) -> list[dict]:
    dump = subprocess.run([LLVM / "bin" / "llvm-tblgen", "--dump-json", "-I", HERE.parent / "include", "-I", LLVM / "include",
                           family], check=True, stdout=subprocess.PIPE).stdout
    records = json.loads(dump)
    ops = []
    for name in records["!instanceof"].get("Mortise_Op", []):
        record = records[name]
        attributes = []
        for value, argument in record["arguments"]["args"]:
            kind = records[value["def"]]
            if "Attr" not in kind["!superclasses"]:
                continue
            storage = kind["storageType"].strip()
            if storage not in KINDS:
                raise SystemExit(f"{family}: mortise.{record['opName']}: attribute '{argument}' has storage {storage}, which "
                                 f"the portable format cannot hold; expected one of {', '.join(KINDS)}")
            summary = kind.get("summary") or ""
            values = summary.split(CHOICE)[1].split(", ") if CHOICE in summary else []
            attributes.append((argument, KINDS[storage], values))
        ops.append({"name": "mortise." + record["opName"], "since": record["since"], "operands": record["operandSlots"],
                    "attributes": sorted(attributes)})
    return ops


def as_record(op: dict) -> str:
    attributes = "".join(f" {name}={kind}" + (":" + "|".join(values) if values else "")
                         for name, kind, values in op["attributes"])
    return f"{op['name']} {op['since']} ({op['operands']}){attributes}"


def main() -> None:
    ops = [op for family in sorted((HERE.parent / "families").glob("*.td")) for op in read(family)]
    lines = "".join(as_record(op) + "\n" for op in sorted(ops, key=lambda op: op["name"]))
    table, wanted = HERE / "ops.inc", f'R"({lines})"\n'
    if "--record" in sys.argv:
        print(lines, end="")
    elif "--check" not in sys.argv:
        table.write_text(wanted)
    elif not table.exists() or table.read_text() != wanted:
        raise SystemExit(f"{table} is not what the .td files say; run ir/portable/ops.py")


if __name__ == "__main__":
    main()
