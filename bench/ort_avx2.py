# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A copy of the installed ONNX Runtime that runs as on a machine without AVX-512, which it has no switch for.

Its libraries ask the instruction xgetbv which registers the operating system saves, and use no AVX-512 where the bits of its registers
(opmask, upper halves, upper registers) are clear. The copy's xgetbv is overwritten by `mov $7, %al`, which clears these bits and keeps
those of SSE and AVX. Intel's manual (volume 1, 13.3 and 15.2) has the bits and says that programs have to ask for them."""

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

XGETBV, REPLACEMENT = b"\x0f\x01\xd0", b"\xb0\x07\x90"
AROUND = 64  # bytes on either side that the disassembler gets, to find where instructions begin and end


def is_instruction(library: Path, address: int) -> bool:
    """Whether an xgetbv begins there; its bytes may be a part of something else."""
    listing = subprocess.run(["objdump", "-d", f"--start-address={address - AROUND}", f"--stop-address={address + AROUND}", library],
                             capture_output=True, text=True, check=True).stdout
    return re.search(rf"^\s*{address:x}:.*\bxgetbv", listing, re.MULTILINE) is not None


def sections(library: Path) -> list[tuple[int, int, int]]:
    """(address, offset in the file, size) of the sections that hold code."""
    listing = subprocess.run(["objdump", "-h", "-w", library], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines() if re.search(r"\bCODE\b", line)]
    return [(int(row[3], 16), int(row[5], 16), int(row[2], 16)) for row in rows]


def patch(library: Path) -> int:
    """Overwrites every xgetbv; returns how many there were."""
    data, count = bytearray(library.read_bytes()), 0
    for address, offset, size in sections(library):
        at = data.find(XGETBV, offset, offset + size)
        while at >= 0:
            if is_instruction(library, address + at - offset):
                data[at : at + len(XGETBV)] = REPLACEMENT
                count += 1
            at = data.find(XGETBV, at + 1, offset + size)
    library.write_bytes(data)
    return count


def folder(build: Path) -> Path:
    """The folder with the copy, for PYTHONPATH; it is made when it is not there. RuntimeError when that is impossible."""
    package = Path(importlib.util.find_spec("onnxruntime").origin).parent
    made = build / "peers" / f"onnxruntime-{importlib.metadata.version('onnxruntime')}-avx2"
    if made.exists():
        return made
    if shutil.which("objdump") is None:
        raise RuntimeError("expected objdump, to find instructions of ONNX Runtime's library; install Debian's binutils")
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
        shutil.copytree(package, Path(scratch, "copy", "onnxruntime"))
        counts = {library.name: patch(library) for library in Path(scratch).rglob("*.so*")}
        if not any("pybind11_state" in name and count for name, count in counts.items()):
            raise RuntimeError(f"expected xgetbv in the library of ONNX Runtime that Python loads, found it {counts} times")
        Path(scratch, "copy").rename(made)
    return made
