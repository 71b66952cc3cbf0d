# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A new vendor's way: from the SDK's tarball in an empty folder, with an empty environment, to a plugin that `mortise plugin check` finds
nothing wrong with, for each language and kind of memory. `seconds`: unpacking, `mortise plugin new`, CMake, compiler and check; the slower
kind of memory counts. `lines`: of the plugin's source, without blank lines and comments. Then one line of each plugin is made wrong, which
the check has to find."""

from vendors import Vendor, lines_of, tarball

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


def go(sdk, lang: str, memory: str) -> dict:
    import tempfile
    import time
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        vendor, name = Vendor(Path(folder)), f"{lang}-{memory}"
        begin = time.perf_counter()
        vendor.run("tar", "-xzf", sdk)
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
    import tempfile
    from pathlib import Path

    from measure import progress

    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        sdk = tarball(Path(folder))
        megabytes = sdk.stat().st_size / 1e6
        for lang, memory in FAULTS:
            row = rows[f"{lang}-{memory}"] = go(sdk, lang, memory)
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
