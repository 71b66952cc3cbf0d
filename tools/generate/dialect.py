# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the .td files and the SDK's headers: the ops with their signatures, and the element types."""

import functools
import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LLVM = Path("/usr/lib/llvm-22")
FAMILIES = sorted((ROOT / "ir/families").glob("*.td"))
# By the C++ storage class of an attribute: its kind in the portable format and the ABI, and whether entries may be symbolic.
STORAGE = {"::mlir::BoolAttr": ("BOOL", False), "::mlir::IntegerAttr": ("I64", False), "::mlir::FloatAttr": ("F64", False),
           "::mlir::StringAttr": ("STRING", False), "::mlir::DenseI64ArrayAttr": ("I64_ARRAY", False),
           "::mortise::ir::DimsAttr": ("I64_ARRAY", True), "::mlir::DenseF64ArrayAttr": ("F64_ARRAY", False),
           "::mlir::ElementsAttr": ("TENSOR", False)}
CHOICE = "is one of: "  # the prefix of Mortise_Choice's summary


@functools.cache
def records(file: Path) -> dict:
    command = [LLVM / "bin" / "llvm-tblgen", "--dump-json", "-I", ROOT / "ir/include", "-I", LLVM / "include", file]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def position(record: dict) -> int:
    """The line of a definition. (Defs inside `let ... in` have several locations; the first is the definition.)"""
    return int(record["!locs"][0].split(":")[1])


def is_of(record, name: str) -> bool:
    return isinstance(record, dict) and name in record.get("!superclasses", [])


def op_records(family: Path) -> list[dict]:
    """The ops that a family's file defines, in the order of the file."""
    found = [r for r in records(family).values() if is_of(r, "Mortise_Op") and r["!locs"][0].startswith(family.name)]
    return sorted(found, key=position)


@functools.cache
def dtypes() -> list[dict]:
    """The rows of mortise/dtypes.h; an error when they differ from the enumerators of MortiseDType."""
    include = ROOT / "sdk/include/mortise"
    fields = ("NAME", "name", "kind", "bits", "exponent", "mantissa", "max", "storage", "torch", "dlpack")
    rows = []
    for row in re.findall(r"^  X\((.*)\)(?: \\)?$", (include / "dtypes.h").read_text(), re.MULTILINE):
        values = [value.strip().strip('"') for value in row.split(",")]
        if len(values) != len(fields):
            raise SystemExit(f"dtypes.h: expected {len(fields)} fields in a row, found X({row})")
        rows.append(dict(zip(fields, values)) | {"number": len(rows) + 1})
    enum = re.search(r"typedef enum MortiseDType \{(.*?)MORTISE_DTYPE_FORCE_INT32", (include / "plugin.h").read_text(), re.DOTALL)[1]
    wanted = [(name, int(number)) for name, number in re.findall(r"MORTISE_(\w+) = (\d+)", enum)]
    if [(row["NAME"], row["number"]) for row in rows] != wanted:
        found = [row["NAME"] for row in rows]
        raise SystemExit(f"dtypes.h: expected a row for each enumerator of MortiseDType, in order: {wanted}; found {found}")
    return rows


def dtype_mask(known: dict, constraint: str) -> int:
    """The element types that a constraint allows, as bits 1 << number."""
    record = known[constraint]
    inner = record.get("elementTypes") or record.get("allowedTypes") or []
    if "baseType" in record:
        inner = [record["baseType"]]
    mask = 0
    for entry in inner:
        mask |= dtype_mask(known, entry["def"])
    if inner:
        return mask
    sign = next((sign for sign in ("UI", "SI", "I") if is_of(record, sign)), None)
    name = f"{sign}{record['bitwidth']}" if sign else constraint
    for row in dtypes():
        if row["NAME"] == name:
            return 1 << row["number"]
    raise SystemExit(f"expected an element type of dtypes.h, found {constraint}")


def tensors(known: dict, arguments: dict) -> list[dict]:
    """The operands or results of an op, in order."""
    slots = []
    for argument, name in arguments["args"]:
        record = known[argument["def"]]
        if is_of(record, "TypeConstraint"):
            arity = "OPTIONAL" if is_of(record, "Optional") else "VARIADIC" if is_of(record, "Variadic") else "ONE"
            slots.append({"name": name, "arity": arity, "dtypes": dtype_mask(known, argument["def"])})
    return slots


def attributes(known: dict, op: dict) -> list[dict]:
    """The attributes of an op, sorted by name, as in nodes."""
    found = []
    for argument, name in op["arguments"]["args"]:
        record = known[argument["def"]]
        if not is_of(record, "Attr"):
            continue
        storage = record["storageType"].strip()
        if storage not in STORAGE:
            raise SystemExit(f"mortise.{op['opName']}: attribute '{name}' has storage {storage}, which the portable format cannot "
                             f"hold; expected one of {', '.join(STORAGE)}")
        kind, symbolic = STORAGE[storage]
        summary = record.get("summary") or ""
        values = summary.split(CHOICE)[1].split(", ") if CHOICE in summary else []
        found.append({"name": name, "kind": kind, "symbolic": symbolic, "values": values, "default": record["defaultValue"] or ""})
    return sorted(found, key=lambda attribute: attribute["name"])


@functools.cache
def traits() -> list[dict]:
    """The op traits, in the order of dialect.td."""
    known = records(ROOT / "ir/include/mortise/ir/dialect.td")
    found = [r for r in known.values() if is_of(r, "Mortise_OpTrait")]
    return [{"name": r["!name"].removeprefix("MortiseTrait_"), "summary": r["summary"]} for r in sorted(found, key=position)]


@functools.cache
def ops() -> list[dict]:
    """All ops, sorted by opset, then by name, so ops of a new opset come after all others."""
    found = []
    for family in FAMILIES:
        known = records(family)
        for op in op_records(family):
            named = [entry["def"].removeprefix("MortiseTrait_") for entry in op["opTraits"]]
            found.append({"name": op["opName"], "since": op["since"], "bodies": op["bodies"], "family": family.stem,
                          "traits": (["Composite"] if op["composite"] else []) + named, "operands": tensors(known, op["arguments"]),
                          "results": tensors(known, op["results"]), "attributes": attributes(known, op)})
    return sorted(found, key=lambda op: (op["since"], op["name"]))


def newest_opset() -> int:
    return int(re.search(r"#define MORTISE_OPSET (\d+)", (ROOT / "sdk/include/mortise/plugin.h").read_text())[1])


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def record_line(op: dict) -> str:
    """An op's line in ir/portable/opset/N.txt."""
    marks = {"ONE": "", "OPTIONAL": "?", "VARIADIC": "*"}
    operands = "".join(f"{slot['name']}{marks[slot['arity']]}," for slot in op["operands"])
    named = "".join(f" {a['name']}={a['kind']}" + (":" + "|".join(a["values"]) if a["values"] else "") for a in op["attributes"])
    return f"mortise.{op['name']} {op['since']} ({operands}){named}"
