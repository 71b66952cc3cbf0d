# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""house.py CHECK [ROOT]: checks one rule of the repository in the files that git tracks, and prints one line per breach.

Checks: vendors, includes, readmes, licences. libraries.py checks what plugins link and export. """

import re
import subprocess
import sys
from pathlib import Path

SHARED = ("frontend", "ir", "passes", "runtime", "sdk", "conformance")
EXEMPT = {"example", "examples", "test", "tests", "template", "codegen"}  # folders that may name a vendor, to explain or to target it
# Names of vendors, their libraries, and the prefixes of their functions (cuMemAlloc, vkCmdDispatch, ncclAllReduce).
VENDORS = {"amdgpu", "apple", "cu", "cublas", "cuda", "cudnn", "cutlass", "dnnl", "hip", "hipblas", "intel", "miopen",
           "mkl", "nccl", "nvidia", "nvrtc", "nvvm", "onednn", "openvino", "qualcomm", "rccl", "rocblas", "rocm", "vk",
           "vulkan"}
# The parts of an identifier: cudaMalloc gives cuda and Malloc; use_CUDNN_v8 gives use, CUDNN and v. oneDNN is one name.
PARTS = re.compile(r"oneDNN|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
CODE = {".c", ".cpp", ".h", ".hpp", ".td", ".fbs"}
# A plugin may include only the SDK: in `mortise/`, its headers and those of the code generation toolkit.
HOST_INCLUDE = re.compile(r'#\s*include\s*[<"](?:mortise/)?(runtime|passes|frontend|ir|portable)/|#\s*include\s*[<"]mortise/mortise\.')
# sdk/include may include only its own headers and those of the C and C++ standards.
FOREIGN_INCLUDE = re.compile(r"#\s*include(?!\s*<mortise/\w+\.hp{0,2}>|\s*<[a-z_]+(\.h)?>)")
UPWARD = re.compile(r'#\s*include\s*"(?:\.\./){2,}')
LICENSED = CODE | {".py", ".sh", ".mlir"}
MARK = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"


def files(root: Path) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                            capture_output=True, text=True)
    return [path for path in map(Path, listed.stdout.splitlines()) if (root / path).is_file()]


def breaches(root: Path, path: Path, breaks):
    """The lines of a file for which `breaks(line)` is true."""
    for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
        if breaks(line):
            yield f"{path}:{number}: {line.strip()}"


def names_vendor(line: str) -> bool:
    return any(part.lower() in VENDORS for part in PARTS.findall(line))


def vendors(root: Path):
    """No shared code names a vendor."""
    for path in files(root):
        if path.parts[0] in SHARED and path.suffix in CODE and not EXEMPT & set(path.parts[:-1]):
            yield from breaches(root, path, names_vendor)


def includes(root: Path):
    """Plugins include no header of the host; sdk/include includes nothing but itself and the language's own."""
    for path in files(root):
        if path.parts[0] == "plugins" and path.suffix in CODE:
            yield from breaches(root, path, lambda line: HOST_INCLUDE.search(line) or UPWARD.search(line))
        if path.parts[:2] == ("sdk", "include"):
            yield from breaches(root, path, FOREIGN_INCLUDE.search)


def readmes(root: Path):
    """Every top-level folder says what lives there."""
    folders = {path.parts[0] for path in files(root) if len(path.parts) > 1 and not path.parts[0].startswith(".")}
    for folder in sorted(folders):
        if not (root / folder / "README.md").exists():
            yield f"{folder}/: has no README.md"


def licences(root: Path):
    """Every source names its licence near its head."""
    for path in files(root):
        if path.suffix in LICENSED or path.name == "CMakeLists.txt":
            head = (root / path).read_text(errors="replace").splitlines()[:4]
            if any(line.strip() for line in head) and not any(MARK in line for line in head):
                yield f"{path}: expected '{MARK}' in its first lines"


CHECKS = {check.__name__: check for check in (vendors, includes, readmes, licences)}


def main() -> int:
    name, root = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve()
    found = list(CHECKS[name](root))
    print(*found, sep="\n")
    print(f"{name}: {CHECKS[name].__doc__} {len(found)} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
