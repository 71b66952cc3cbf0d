# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The op table of the SDK (C), and the tables of the PyTorch frontend (Python)."""

from dialect import camel, dtypes, ops, traits

HEAD = """/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Every op of the dialect: its number, traits, operands, results and attributes. Made from the .td files in ir/families by
 * ./dev docs; do not edit. C11; no library behind it. mortise/ops.hpp is the same for C++20.
 *
 * Numbers belong to one version of the SDK: they never cross the ABI and never stand in a file, where an op has its name.
 * They are ordered by opset, so that an op of a later opset comes after all others.
 */
#ifndef MORTISE_OPS_H
#define MORTISE_OPS_H

#include <mortise/dtypes.h>

#include <string.h>

/* X(NAME, Name, name): MORTISE_OP_NAME, mortise::Op::Name, "mortise.name". */
"""
STRUCTS = """
typedef enum MortiseArity { MORTISE_ARITY_ONE = 0, MORTISE_ARITY_OPTIONAL = 1, MORTISE_ARITY_VARIADIC = 2 } MortiseArity;

/* An operand or a result. */
typedef struct MortiseSlotInfo {
  const char *name;
  uint32_t dtypes; /* bit n: the element type may be the MortiseDType n */
  int32_t arity;   /* MortiseArity */
} MortiseSlotInfo;

typedef struct MortiseAttributeInfo {
  const char *name;
  int32_t kind;              /* MortiseAttributeKind */
  int32_t symbolic;          /* 1: entries may be expressions over symbols */
  const char *const *values; /* the strings that it may be; NULL: any */
  size_t value_count;
  const char *implied;       /* what a missing one means, as text; NULL: it has to be there */
} MortiseAttributeInfo;

typedef struct MortiseOpInfo {
  int32_t op;       /* MortiseOp */
  uint32_t since;   /* the opset that introduced it */
  uint32_t traits;  /* bits of MortiseTrait */
  int32_t bodies;   /* how many graphs it runs; -1: any number */
  const char *name; /* "mortise.add" */
  const MortiseSlotInfo *operands;
  size_t operand_count;
  const MortiseSlotInfo *results;
  size_t result_count;
  const MortiseAttributeInfo *attributes; /* sorted by name */
  size_t attribute_count;
} MortiseOpInfo;
"""
FIND = """
/* The number of the op of this name ("mortise.add"); MORTISE_OP_UNKNOWN for a vendor's op, a newer one or NULL. */
MORTISE_TABLE_FUNCTION int32_t mortise_op_find(const char *name) {
  static const uint16_t by_name[] = {%s};
  size_t low = 0, high = sizeof(by_name) / sizeof(by_name[0]);
  if (!name || strncmp(name, "mortise.", 8) != 0)
    return MORTISE_OP_UNKNOWN;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int order = strcmp(name + 8, mortise_op_info(by_name[middle])->name + 8);
    if (order == 0)
      return by_name[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return MORTISE_OP_UNKNOWN;
}
"""


class Pool:
    """The rows of one C array; equal runs of rows are stored once."""

    def __init__(self, name: str):
        self.name, self.rows = name, []

    def place(self, rows: list[str]) -> str:
        if not rows:
            return "NULL, 0"
        for at in range(len(self.rows) + 1):
            if self.rows[at:at + len(rows)] == rows:
                break
        else:
            at = len(self.rows)
            self.rows += rows
        return f"&{self.name}[{at}], {len(rows)}"

    def text(self, kind: str) -> str:
        return f"  static const {kind}{self.name}[] = {{\n" + "".join(f"      {row},\n" for row in self.rows) + "  };\n"


def op_header() -> str:
    lists = []
    for title, macro, rows in (("OP", "MORTISE_FOR_EACH_OP", [(o["name"].upper(), camel(o["name"]), o["name"]) for o in ops()]),
                               ("TRAIT", "MORTISE_FOR_EACH_TRAIT", [(snake(t["name"]).upper(), t["name"]) for t in traits()])):
        if title == "TRAIT":
            lists.append("\n/* X(NAME, Name): MORTISE_TRAIT_NAME, mortise::Trait::Name. */\n")
        lists.append(f"#define {macro}(X) \\\n" + " \\\n".join(f"  X({', '.join(row)})" for row in rows) + "\n")
    enum = "\ntypedef enum MortiseOp {\n  MORTISE_OP_UNKNOWN = 0,\n"
    enum += "".join(f"  MORTISE_OP_{op['name'].upper()} = {i},\n" for i, op in enumerate(ops(), 1))
    enum += f"  MORTISE_OP_COUNT = {len(ops()) + 1} /* numbers are below it */\n}} MortiseOp;\n\ntypedef enum MortiseTrait {{\n"
    enum += "".join(f"  MORTISE_TRAIT_{snake(t['name']).upper()} = 1 << {i}, /* {t['summary']} */\n" for i, t in enumerate(traits()))
    enum += "} MortiseTrait;\n"

    values, slots, attributes = Pool("values"), Pool("slots"), Pool("attributes")
    rows = []
    for op in ops():
        placed = [slots.place([f"{{\"{s['name']}\", {s['dtypes']:#x}, MORTISE_ARITY_{s['arity']}}}" for s in op[kind]])
                  for kind in ("operands", "results")]
        named = []
        for a in op["attributes"]:
            choices = values.place([f'"{value}"' for value in a["values"]])
            implied = f'"{a["default"]}"' if a["default"] else "NULL"
            named.append(f"{{\"{a['name']}\", MORTISE_ATTRIBUTE_{a['kind']}, {int(a['symbolic'])}, {choices}, {implied}}}")
        bits = " | ".join(f"MORTISE_TRAIT_{snake(t).upper()}" for t in op["traits"]) or "0"
        rows.append(f"{{MORTISE_OP_{op['name'].upper()}, {op['since']}, {bits}, {op['bodies']}, \"mortise.{op['name']}\", "
                    f"{', '.join(placed)}, {attributes.place(named)}}}")
    info = "\n/* NULL for a number that is none. */\nMORTISE_TABLE_FUNCTION const MortiseOpInfo *mortise_op_info(int32_t op) {\n"
    info += values.text("char *const ") + slots.text("MortiseSlotInfo ") + attributes.text("MortiseAttributeInfo ")
    info += "  static const MortiseOpInfo rows[] = {\n" + "".join(f"      {row},\n" for row in rows) + "  };\n"
    info += "  return op > 0 && op < MORTISE_OP_COUNT ? &rows[op - 1] : NULL;\n}\n"

    numbers = {op["name"]: i for i, op in enumerate(ops(), 1)}
    find = FIND % ", ".join(str(numbers[name]) for name in sorted(numbers))
    opening, closing = '\n#ifdef __cplusplus\nextern "C" {\n#endif\n', "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
    return HEAD + "".join(lists) + opening + enum + STRUCTS + info + find + closing


def snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


PYTHON_HEAD = '''# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every element type and every op that the dialect has. Made from sdk/include/mortise/dtypes.h and ir/families/*.td by
./dev docs; do not edit."""

from typing import NamedTuple


class DType(NamedTuple):
    number: int  # MortiseDType
    name: str
    kind: str  # float, signed, unsigned or bool
    bits: int
    exponent: int
    mantissa: int
    max: float  # the largest finite number of a float
    torch: str  # the attribute of torch; "" where there is none


'''


def python_tables() -> str:
    lines = []
    for row in dtypes():
        most = repr(float.fromhex(row["max"])) if row["max"].startswith("0x") else repr(float(row["max"]))
        lines.append(f"    DType({row['number']}, \"{row['name']}\", \"{row['kind'].lower()}\", {row['bits']}, {row['exponent']}, "
                     f"{row['mantissa']}, {most}, \"{row['torch']}\"),\n")
    numbers = [row["NAME"] for row in dtypes()]
    text = PYTHON_HEAD + "".join(f"{name} = {i}\n" for i, name in enumerate(numbers, 1)) + f"__all__ = {numbers!r}\n\n"
    text = text.replace("'", '"') + "DTYPES = (\n" + "".join(lines) + ")\n\n# Each op with its traits.\nOPS = {\n"
    for op in sorted(ops(), key=lambda op: op["name"]):
        named = ", ".join(f'"{snake(t)}"' for t in op["traits"])
        text += f'    "{op["name"]}": ({named}{"," if len(op["traits"]) == 1 else ""}),\n'
    return text + "}\n"
