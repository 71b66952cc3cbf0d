# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A bare Debian with Python, in a folder (figure `wheel`): what debootstrap makes, entered with chroot. Both need root."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "clang++", "ld", "as", "nvcc")
# What the system has of the machine's settings: names of hosts, and how pip reaches its indexes.
FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/root/.config/pip/pip.conf")
VARIABLES = re.compile(r"PIP_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|\w+_proxy|\w+_PROXY")


def settings() -> tuple[list[str], list[str]]:
    """How the chroot below gets to packages: folders of this machine that pip's settings name, and the settings of the environment."""
    kept = [f"{name}={value}" for name, value in os.environ.items() if VARIABLES.fullmatch(name)]
    texts = kept + [Path(file).read_text() for file in FILES if file.endswith("pip.conf") and Path(file).exists()]
    folders = {Path(each) for text in texts for each in re.findall(r"(?:file://)?(/[^\s:=,]+)", text) if Path(each).is_dir()}
    # The files of an index lie beside its folder `simple`.
    return sorted({str(each.parent if each.name == "simple" else each) for each in folders} | {"/etc/ssl/certs"}), kept


class BareDebian:
    """`root`: the folder of the system, which is made of `suite` and `packages` when it is not there. `shared`: folders of this machine
    that the system also has, at the same paths, read-only."""

    def __init__(self, root: Path, suite: str, packages: tuple[str, ...], shared: list[str]):
        if os.geteuid() != 0:
            raise RuntimeError("needs root: it makes a Debian system with debootstrap and enters it with chroot; run it as root")
        if not shutil.which("debootstrap"):
            raise RuntimeError("needs debootstrap; ./dev setup installs it")
        self.root = root
        folders, self.kept = settings()
        self.shared = [*folders, *shared]
        if not (made := self.root / "made").exists():
            shutil.rmtree(self.root, ignore_errors=True)
            sources = "".join(file.read_text() for file in sorted(Path("/etc/apt/sources.list.d").glob("debian.*")))
            mirror = re.search(r"^URIs: *(\S+)", sources, re.MULTILINE)
            self.root.parent.mkdir(parents=True, exist_ok=True)
            with open(f"{self.root}.log", "w") as log:
                # The script of sid makes every suite of these years; that of the newest may be unknown here.
                subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", suite, self.root,
                                mirror[1] if mirror else "http://deb.debian.org/debian", "/usr/share/debootstrap/scripts/sid"],
                               check=True, stdout=log, stderr=log)
            self.copy_settings()
            # Not by debootstrap, which knows no package that another one provides. A mirror of a Debian to come may be weeks behind.
            self.run("apt-get -q -o Acquire::Check-Valid-Until=false update && DEBIAN_FRONTEND=noninteractive "
                     f"apt-get -q install -y --no-install-recommends {' '.join(packages)}")
            made.touch()
        self.copy_settings()
        if found := self.run(f"for each in {' '.join(COMPILERS)}; do command -v $each || true; done").split():
            raise RuntimeError(f"expected a system without a compiler, found {' '.join(found)}")

    def copy_settings(self) -> None:
        for file in FILES:
            if Path(file).exists():
                (to := self.root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, to)

    def run(self, command: str) -> str:
        """What a shell in the system prints. The mounts end with it."""
        root = shlex.quote(str(self.root))
        mounts = [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
        for folder in map(shlex.quote, self.shared):
            mounts.append(f"mkdir -p {root}{folder} && mount --bind -o ro {folder} {root}{folder}")
        enter = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *self.kept, "chroot", str(self.root),
                 "/bin/bash", "-ec", command]
        script = f"{' && '.join(mounts)} && exec {shlex.join(enter)}"
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-ec", script], capture_output=True,
                              text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"in the bare Debian, {command[:200]!r} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout
