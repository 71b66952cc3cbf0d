# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check.py WHEEL...: whether a wheel is what it says. auditwheel proves its manylinux tag; each file is in RECORD with its hash; binaries
are stripped, find libraries relative to themselves alone, and export no more than they should (tests/checks/libraries.py); manifests have
the hashes of their libraries; the extension uses CPython's stable ABI of the tag's version alone, and the sources are Python of that
version."""

import base64
import csv
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import abi3info
from abi3info.models import PyVersion, Symbol
from auditwheel.wheel_abi import analyze_wheel_abi

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "checks"))
import libraries

# PyTorch brings it (torch/lib), and a second one would be a second pool of threads.
FROM_PYTORCH = frozenset({"libgomp.so.1"})
PYTHON = PyVersion(3, 10)  # the oldest that is supported
PLUGINS = "torch_mortise/lib/mortise/plugins"
# Beside the Python sources. Of a plugin's wheel: the library and its manifest.
CORE_FILES = {f"torch_mortise/{name}" for name in ("_native.abi3.so", "bin/mortise", "bin/mortise-worker", "lib/libmortise.so.0")}
CORE_FILES |= {f"{PLUGINS}/libmortise_{name}{suffix}" for name in ("cpu", "reference") for suffix in (".so", ".toml")}
CORE_FILES |= {f"{PLUGINS}/libdnnl.so.3"}
CORE_ENTRY_POINTS = {
    "[torch_dynamo_backends]",
    "mortise = torch_mortise:backend",
    "[console_scripts]",
    "mortise = torch_mortise.command:main",
}
# What libraries that are no plugins export. oneDNN's is not ours.
EXPORTS = {"libmortise.so.0": r"mortise_\w+", "_native.abi3.so": r"PyInit_\w+"}


def is_binary(file: Path) -> bool:
    with open(file, "rb") as opened:
        return opened.read(4) == b"\x7fELF"


def output(*command) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def breaches(wheel: Path) -> list[str]:
    """Why the wheel is not what it says; empty if it is."""
    found = tag_breaches(wheel)
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        for each in archive.infolist():
            Path(archive.extract(each, folder)).chmod(each.external_attr >> 16 & 0o777)
        return found + tree_breaches(Path(folder))


def tag_breaches(wheel: Path) -> list[str]:
    *_, python, abi, platform = wheel.stem.split("-")
    core = wheel.name.startswith("torch_mortise-")
    if (python, abi) != (wanted := ("cp310", "abi3") if core else ("py3", "none")):
        return [f"expected the tag {'-'.join(wanted)}, found {python}-{abi}"]
    try:
        proven = analyze_wheel_abi(None, None, wheel, FROM_PYTORCH, disable_isa_ext_check=False, allow_graft=False)
    except Exception as error:  # auditwheel has many, for files that are no wheels or no libraries
        return [f"auditwheel cannot examine it: {type(error).__name__}: {error}"]
    if proven.overall_policy.name == platform:
        return []
    outside = sorted(proven.external_refs[proven.policies.lowest.name].libs)
    return [f"auditwheel proves {proven.overall_policy.name}, the name says {platform}; symbols' versions allow {proven.sym_policy.name}, "
            f"libraries from outside are {', '.join(outside) or 'none'}"]


def tree_breaches(tree: Path) -> list[str]:
    """The breaches of a wheel that was unpacked into `tree`."""
    found, files = [], {str(file.relative_to(tree)) for file in tree.rglob("*") if file.is_file()}
    [info] = tree.glob("*.dist-info")
    core = info.name.startswith("torch_mortise-")
    found += record_breaches(tree, info, files)
    if core:
        sources = ROOT / "frontend" / "torch"
        expected = CORE_FILES | {str(file.relative_to(sources)) for file in (sources / "torch_mortise").rglob("*.py")}
        entry_points = CORE_ENTRY_POINTS
    else:
        name = info.name.split("-")[0].removeprefix("torch_mortise_")
        expected = {f"torch_mortise_{name}/libmortise_{name}{suffix}" for suffix in (".so", ".toml")}
        entry_points = {"[torch_mortise.plugins]", f"{name} = torch_mortise_{name}"}
    found += [f"{name}: expected, not found" for name in sorted(expected - files)]
    found += [f"{name}: not expected" for name in sorted(files - expected) if not name.startswith(info.name)]
    found += [f"{name}: expected to be a program" for name in sorted(files) if "/bin/" in name and not (tree / name).stat().st_mode & 0o100]
    has = set((info / "entry_points.txt").read_text().splitlines()) - {""} if f"{info.name}/entry_points.txt" in files else set()
    if has != entry_points:
        found.append(f"expected the entry points {sorted(entry_points)}, found {sorted(has)}")
    for name in ("LICENSE", "licenses/llvm-22-dev") + (("licenses/onednn-LICENSE",) if core else ()):
        if f"{info.name}/licenses/{name}" not in files:
            found.append(f"the licence {name}: expected, not found")
    for name in sorted(files):
        if is_binary(tree / name):
            found += [f"{name}: {breach}" for breach in binary_breaches(tree / name)]
    return found + (python_breaches(tree / "torch_mortise") if core else [])


def record_breaches(tree: Path, info: Path, files: set[str]) -> list[str]:
    """RECORD names each file but itself with its hash, and no other."""
    with open(info / "RECORD", newline="") as record:
        recorded = {name: digest for name, digest, _ in csv.reader(record)}
    found = [f"{name}: in RECORD, not in the wheel" for name in sorted(set(recorded) - files)]
    found += [f"{name}: not in RECORD" for name in sorted(files - set(recorded))]
    for name in sorted(files & set(recorded) - {f"{info.name}/RECORD"}):
        digest = base64.urlsafe_b64encode(hashlib.sha256((tree / name).read_bytes()).digest()).decode().rstrip("=")
        if recorded[name] != f"sha256={digest}":
            found.append(f"{name}: its hash is not the one in RECORD")
    return found


def binary_breaches(file: Path):
    sections, dynamic = output("readelf", "-SW", file), output("readelf", "-dW", file)
    if ".symtab" in sections:
        yield "is not stripped"
    for path in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", dynamic):
        for part in path.split(":"):
            if not re.fullmatch(r"\$ORIGIN(/.*)?", part):
                yield f"looks for libraries in {part!r}, which is not relative to it"
    name = file.name
    if re.fullmatch(r"libmortise_\w+\.so", name):
        yield from libraries.breaches(file, "mortise_plugin", False, True)
        manifest = file.with_suffix(".toml")
        if manifest.exists() and f'sha256 = "{hashlib.sha256(file.read_bytes()).hexdigest()}"' not in manifest.read_text().splitlines():
            yield f"{manifest.name} has another hash"
    elif name in EXPORTS:
        yield from libraries.breaches(file, EXPORTS[name], False, False)
    elif any(each.startswith(("libLLVM", "libMLIR", "libmortise")) for each in libraries.needed(file)):
        yield f"links {', '.join(libraries.needed(file))}"


def python_breaches(package: Path) -> list[str]:
    found = []
    if (extension := package / "_native.abi3.so").exists():
        for line in output("nm", "-D", "--undefined-only", extension).splitlines():
            name = line.split()[-1].split("@")[0]
            if not name.startswith(("Py", "_Py")):
                continue
            known = abi3info.FUNCTIONS.get(Symbol(name)) or abi3info.DATAS.get(Symbol(name))
            if known is None or known.added > PYTHON:
                found.append(f"{extension.name}: uses {name}, which the stable ABI has {f'from {known.added} on' if known else 'not'}")
    # vermin takes float.is_integer, which is old, for int's.
    options = (f"-t={PYTHON}-", "--no-tips", "--violations", "--exclude", "int.is_integer")
    done = subprocess.run([Path(sys.prefix, "bin", "vermin"), *options, package], capture_output=True, text=True, check=False)
    if done.returncode:
        found.append(f"the sources are not Python {PYTHON}: {' '.join(done.stdout.split())}")
    return found


def main() -> int:
    found = {wheel: breaches(Path(wheel)) for wheel in sys.argv[1:]}
    for wheel, problems in found.items():
        print(*[f"{wheel}: {problem}" for problem in problems] or [f"{wheel}: checked"], sep="\n")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
