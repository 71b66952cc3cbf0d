# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ways to be a bad plugin, manifest or configuration (bad_plugins.py), each tried with the command `mortise` as it is released, under the
address and undefined-behaviour sanitizers, and under the thread sanitizer; ways that cannot be tried there are `skipped`, by reason. A
way has passed when the user sees a message with the words that it needs, no command ends by a signal, and what is good beside it works.
Two controls have to fail: a good plugin, and a message without a word. Arguments: names of builds (`release`, `asan`, `tsan`; all of them
without one), and parts of names of ways."""

from figures import ArgumentError

MEASURES = "ways to be a bad plugin, manifest or configuration, crashes and hangs included: a message each"
NEEDS = "cpu; builds a part of the presets asan and tsan"
MINUTES = 25


def measure(arguments: list[str]) -> dict:
    import subprocess
    import tempfile
    from collections import Counter
    from pathlib import Path

    from bad_plugins import Bad, attempt, put, rows, sanitized
    from measure import ROOT, build_folder, make, progress

    presets = [name for name in ("release", "asan", "tsan") if name in arguments] or ["release", "asan", "tsan"]
    parts = [argument for argument in arguments if argument not in presets]
    wanted = [row for row in rows() if not parts or any(part in row.name for part in parts)]
    if not wanted:
        raise ArgumentError(f"expected parts of names such as 'manifest', found {' '.join(parts)}")
    controls = [Bad("control: a good plugin", "devices", [], put),
                Bad("control: another word", "devices", ["no such word"], lambda folder: put(folder, manifest=""))]
    builds = []
    if "release" in presets:
        make("mortise_plugin_strict")
        builds.append(build_folder())
    for preset in [preset for preset in presets if preset != "release"]:
        builds.append(build := ROOT / "build" / preset)
        if not (build / "build.ninja").exists():
            subprocess.run(["cmake", "--fresh", "--preset", preset], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
        progress(f"building mortise with the sanitizers of {preset}")
        for target in ("mortise-cli", "mortise_plugin_reference"):
            make(target, build)
    passed, failures, messages, skipped = 0, [], {}, Counter()
    for build in builds:
        for row in wanted + controls:
            if row.unsanitized and sanitized(build):
                skipped[row.unsanitized] += 1
                continue
            with tempfile.TemporaryDirectory() as folder:
                why, said = attempt(row, Path(folder), build)
            if row in controls:
                why = "" if why else "it passed"
            else:
                messages[row.name] = said
            passed += not why
            if why:
                failures.append(f"{build.name}: {row.name}: {why}")
                progress(f"FAILED {failures[-1]}")
        progress(f"{build.name}: {passed} passed, {len(failures)} failed so far")
    return {"passed": passed, "failed": len(failures), "ways": len(wanted), "skipped": dict(skipped), "failures": failures[:40],
            "messages": messages}
