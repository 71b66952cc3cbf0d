# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A bare Debian 12 with Python, in a folder (figure `wheel`): what debootstrap makes, entered with chroot. Both need root."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

PACKAGES = ("ca-certificates", "python3", "python3-venv")
COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "clang++", "ld", "as", "nvcc")
# What the system has of the machine's settings: names of hosts, and how pip reaches its indexes.
FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/root/.config/pip/pip.conf")
VARIABLES = re.compile(r"PIP_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|\w+_proxy|\w+_PROXY")


def settings() -> tuple[list[str], list[str]]:
    """How the chroot below gets to packages: folders of this machine that pip's settings name, and the settings of the environment."""
    kept = [f"{name}={value}" for name, value in os.environ.items() if VARIABLES.fullmatch(name)]
    texts = kept + [Path(file).read_text() for file in FILES if file.endswith("pip.conf") and Path(file).exists()]
    folders = {each for text in texts for each in re.findall(r"(?:file://)?(/[^\s:=,]+)", text) if Path(each).is_dir()}
    return sorted(folders | {"/etc/ssl/certs"}), kept


class BareDebian:
    """`cache`: a folder that keeps the system, and what pip downloads. `shared`: folders of this machine that the system also has, at the
    same paths, read-only."""

    def __init__(self, cache: Path, shared: list[str]):
        if os.geteuid() != 0:
            raise RuntimeError("needs root: it makes a Debian system with debootstrap and enters it with chroot; run it as root")
        if not shutil.which("debootstrap"):
            raise RuntimeError("needs debootstrap; ./dev setup installs it")
        self.root, self.pip_cache = cache / "debian-12", cache / "pip"
        folders, self.kept = settings()
        self.shared = [*folders, *shared]
        self.pip_cache.mkdir(parents=True, exist_ok=True)
        if not (self.root / "usr" / "bin" / "python3").exists():
            shutil.rmtree(self.root, ignore_errors=True)
            sources = "".join(file.read_text() for file in sorted(Path("/etc/apt/sources.list.d").glob("debian.*")))
            mirror = re.search(r"^URIs: *(\S+)", sources, re.MULTILINE)
            with open(cache / "debootstrap.log", "w") as log:
                subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm", self.root,
                                mirror[1] if mirror else "http://deb.debian.org/debian"], check=True, stdout=log, stderr=log)
        for file in FILES:
            if Path(file).exists():
                (to := self.root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, to)
        if found := self.run(f"for each in {' '.join(COMPILERS)}; do command -v $each || true; done").split():
            raise RuntimeError(f"expected a system without a compiler, found {' '.join(found)}")

    def run(self, command: str) -> str:
        """What a shell in the system prints. The mounts end with it."""
        mounts = [f"mount -t proc proc {self.root}/proc", f"mount --rbind /dev {self.root}/dev", f"mkdir -p {self.root}/root/.cache/pip",
                  f"mount --bind {shlex.quote(str(self.pip_cache))} {self.root}/root/.cache/pip"]
        for folder in self.shared:
            inside = shlex.quote(f"{self.root}{folder}")
            mounts.append(f"mkdir -p {inside} && mount --bind -o ro {shlex.quote(folder)} {inside}")
        enter = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *self.kept, "chroot", str(self.root),
                 "/bin/bash", "-ec", command]
        script = f"{' && '.join(mounts)} && exec {shlex.join(enter)}"
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-ec", script], capture_output=True,
                              text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"in the bare Debian, {command[:200]!r} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout
