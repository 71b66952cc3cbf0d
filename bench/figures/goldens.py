# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether files of released versions stay readable: runs the tests of golden files and versions, and counts them."""

MEASURES = ("files of every declared version read and computed today, released opsets still there, "
            "synthetic older and newer revisions")
NEEDS = "a build"
MINUTES = 2

TESTS = {"mortise_golden_test": "*", "mortise_portable_test": "Opset.*:Upgrade.*:Downgrade.*:NewFields.VersionOne*"}


def measure(arguments: list[str]) -> dict:
    import json
    import subprocess
    import tempfile
    from pathlib import Path

    from measure import ROOT, build_folder, progress

    build = build_folder()
    subprocess.run(["cmake", "--build", str(build), "--target", *TESTS], check=True, stdout=subprocess.DEVNULL)
    passed, failed, groups = 0, [], {}
    for program, selected in TESTS.items():
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            done = subprocess.run([str(build / "bin" / program), f"--gtest_filter={selected}", f"--gtest_output=json:{report}"],
                                  check=False, capture_output=True, text=True)
            if not report.exists():
                raise RuntimeError(f"{program} ended with code {done.returncode} and no report:\n{done.stdout[-3000:]}")
            suites = json.loads(report.read_text())["testsuites"]
        for suite in suites:
            for case in suite["testsuite"]:
                if case["result"] != "COMPLETED":
                    raise RuntimeError(f"{suite['name']}.{case['name']} was not run: {case['result']}")
                groups[suite["name"]] = groups.get(suite["name"], 0) + 1
                if "failures" in case:
                    failed.append(f"{suite['name']}.{case['name']}")
                    progress(f"FAILED {failed[-1]}: {case['failures'][0]['failure'].strip()}")
                else:
                    passed += 1
    files = sorted((ROOT / "ir" / "portable" / "golden").glob("*.mrtg"))
    if groups.get("File/Golden", 0) != len(files):
        raise RuntimeError(f"expected a test of each of {len(files)} golden files, found {groups}")
    return {"passed": passed, "failed": len(failed), "files": len(files), "groups": groups, "failures": failed}
