# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""./dev docs: writes every committed file that is generated from other files, except the dump of the ABI (sdk/abi/layout.py).

python tools/generate [--check] [FILE...]: writes all of them, or those named; --check writes nothing and fails when one is stale.
python tools/generate --record: prints the ops in the form of ir/portable/opset/N.txt.
python tools/generate --list: prints the names of all generated files that are committed, those of other scripts included.
"""

import sys

import abi
import dialect
import pages
import round_trip
import tables

GENERATED = {
    "sdk/include/mortise/ops.h": tables.op_header,
    "frontend/torch/torch_mortise/_tables.py": tables.python_tables,
    "docs/abi.md": abi.abi_page,
    "docs/ops.md": pages.ops_page,
    "docs/aten.md": pages.aten_page,
    "README.md": pages.readme,
} | round_trip.files()
WRITTEN_BY_OTHERS = ["sdk/abi/revision-3.txt"]  # sdk/abi/layout.py --update


def main() -> int:
    options = {argument for argument in sys.argv[1:] if argument.startswith("--")}
    names = [argument for argument in sys.argv[1:] if argument not in options] or list(GENERATED)
    unknown = [*(options - {"--check", "--record", "--list"}), *(name for name in names if name not in GENERATED)]
    if unknown:
        print(f"expected --check, --record, --list or names among {', '.join(GENERATED)}; found {', '.join(unknown)}", file=sys.stderr)
        return 2
    if "--list" in options:
        print("\n".join([*GENERATED, *WRITTEN_BY_OTHERS]))
        return 0
    if "--record" in options:
        print("\n".join(dialect.record_line(op) for op in sorted(dialect.ops(), key=lambda op: op["name"])))
        return 0
    stale = 0
    for name in names:
        path, text = dialect.ROOT / name, GENERATED[name]()
        if "--check" not in options:
            # An unchanged file keeps its time, because a newer header causes a long rebuild.
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
                print(f"wrote {name}")
        elif not path.exists() or path.read_text() != text:
            print(f"{name} is stale: ./dev docs writes it anew")
            stale = 1
    return stale


sys.exit(main())
