# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A new vendor's way: from the SDK's tarball in an empty folder, with an empty environment, to a plugin that `mortise plugin check` finds
nothing wrong with, for each language and kind of memory. `seconds`: unpacking, `mortise plugin new`, CMake, compiler and check; the slower
kind of memory counts. `lines`: of the plugin's source, without blank lines and comments. Then one line of each plugin is made wrong, which
the check has to find."""

MEASURES = "from the SDK's tarball to a conforming plugin in C, C++ and with generated kernels: seconds, lines"
NEEDS = "cpu"
MINUTES = 1

MOST_SECONDS, MOST_LINES = 120, {"c": 200}
# What makes a plugin wrong, in each project.
FAULTS = {
    ("c", "host"): ("a[i] * b[i]", "a[i] * b[i] + 1"),
    ("c", "own"): ("a[i] * b[i]", "a[i] * b[i] + 1"),
    ("cpp", "host"): ("return a * b;", "return a * b + 1;"),
    ("cpp", "own"): ("return a * b;", "return a * b + 1;"),
    ("codegen", "host"): ("args.outputs[place.index]", "args.outputs[0]"),
}


def lines_of(source) -> int:
    """Lines of code of a C or C++ file: neither blank nor all comment."""
    import re

    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), source.read_text(), flags=re.DOTALL)
    return sum(1 for line in text.splitlines() if line.split("//")[0].strip())


class Vendor:
    """A folder with nothing but the tarball, and an environment without any setting."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {"PATH": f"{folder / 'mortise-sdk' / 'bin'}:/usr/bin:/bin", "HOME": str(folder)}

    def run(self, *command, status=0) -> str:
        import subprocess

        ran = subprocess.run([str(word) for word in command], cwd=self.folder, env=self.environment, text=True, timeout=600, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ran.returncode != status:
            what = " ".join(map(str, command))
            raise RuntimeError(f"{what}: expected exit status {status}, found {ran.returncode}: {ran.stdout[-2000:]}")
        return ran.stdout

    def build(self, name: str) -> None:
        self.run("cmake", "-S", name, "-B", f"{name}/build")
        self.run("cmake", "--build", f"{name}/build")

    def check(self, name: str, status: int = 0) -> str:
        return self.run("mortise", "plugin", "check", f"{name}/build/lib/mortise/plugins/libmortise_{name}.so", status=status)


def go(tarball, lang: str, memory: str) -> dict:
    import tempfile
    import time
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        vendor, name = Vendor(Path(folder)), f"{lang}-{memory}"
        begin = time.perf_counter()
        vendor.run("tar", "-xzf", tarball)
        vendor.run("mortise", "plugin", "new", name, "--lang", lang, "--memory", memory)
        vendor.build(name)
        said = vendor.check(name)
        seconds = time.perf_counter() - begin
        source, = Path(folder, name).glob("plugin.c*")
        old, new = FAULTS[lang, memory]
        if old not in (text := source.read_text()):
            raise RuntimeError(f"{source.name} of --lang {lang} --memory {memory} has no {old!r}")
        row = {"seconds": seconds, "lines": lines_of(source), "right": "nothing wrong" in said and "cases are right" in said}
        source.write_text(text.replace(old, new))
        vendor.build(name)
        row["found"] = "BAD" in vendor.check(name, status=1)
        return row


def measure(arguments: list[str]) -> dict:
    import subprocess
    import tempfile
    from pathlib import Path

    from measure import ROOT, progress

    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ROOT / "dev", "sdk", Path(folder, "mortise-sdk")], check=True, stdout=subprocess.DEVNULL)
        tarball = Path(folder, "mortise-sdk.tar.gz")
        megabytes = tarball.stat().st_size / 1e6
        for lang, memory in FAULTS:
            row = rows[f"{lang}-{memory}"] = go(tarball, lang, memory)
            progress(f"{lang}, {memory} memory: {row['seconds']:.1f} s, {row['lines']} lines, "
                     f"{'conforms' if row['right'] else 'does not conform'}, fault {'found' if row['found'] else 'NOT FOUND'}")
    langs = dict.fromkeys(lang for lang, _ in FAULTS)
    seconds = {lang: max(row["seconds"] for name, row in rows.items() if name.split("-")[0] == lang) for lang in langs}
    lines = {lang: max(row["lines"] for name, row in rows.items() if name.split("-")[0] == lang) for lang in langs}
    for name, row in rows.items():
        most = MOST_LINES.get(name.split("-")[0])
        row["passed"] = row["right"] and row["found"] and row["seconds"] <= MOST_SECONDS and (most is None or row["lines"] <= most)
    return {"rows": rows, "seconds": seconds, "lines": lines, "tarball_mb": megabytes,
            "passed": all(row["passed"] for row in rows.values())}
