#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""release.py BUILD: records this build's opset; later versions must stay compatible with the record. Run once for each opset.

Writes opset/N.txt, golden/opsetN-*.mrtg from the lit tests of all families, their results, and the checksums. BUILD must contain
the programs mortise_golden_writer and mortise_golden_test.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OTHERS = ("invalid", "canonicalize", "labels")  # test files whose ops are not recorded


def main() -> None:
    programs = Path(sys.argv[1]).resolve() / "bin"
    header = (HERE.parents[1] / "sdk" / "include" / "mortise" / "plugin.h").read_text()
    opset = re.search(r"#define MORTISE_OPSET (\d+)", header)[1]
    record = HERE / "opset" / f"{opset}.txt"
    if record.exists():
        raise SystemExit(f"opset {opset} is released: {record} exists; raise MORTISE_OPSET")
    generate = [sys.executable, HERE.parents[1] / "tools" / "generate"]
    subprocess.run([*generate, "--check", "sdk/include/mortise/ops.h"], check=True)
    for file in sorted((HERE.parent / "test").glob("*/*.mlir")):
        if file.stem in OTHERS or file.parent.name == "portable":
            continue
        name = file.parent.name + ("" if file.stem == "ops" else f"_{file.stem}")
        done = subprocess.run([programs / "mortise_golden_writer", HERE / "golden", f"opset{opset}-{name}", file], check=False,
                              capture_output=True, text=True)
        print(done.stderr, end="")
    record.write_text(subprocess.run([*generate, "--record"], check=True, capture_output=True, text=True).stdout)
    for tests in ("-GoldenSums*", "GoldenSums*"):  # the sums last, because they cover the results too
        subprocess.run([programs / "mortise_golden_test", f"--gtest_filter={tests}"], check=True,
                       env=os.environ | {"MORTISE_TEST_WRITE_GOLDEN": "1"})


if __name__ == "__main__":
    main()
