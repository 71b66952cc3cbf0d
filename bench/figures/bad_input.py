# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bad input gives clear errors: runs the tests for this and counts them."""

MEASURES = "tests of bad plugins, options, operators and inputs: each a clear error, never a crash"
NEEDS = "cpu, the test build"
MINUTES = 1


def measure(arguments: list[str]) -> dict:
    import subprocess
    import sys
    import tempfile
    import xml.etree.ElementTree as xml
    from pathlib import Path

    from measure import ROOT, progress

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", f"--junitxml={report}",
                               str(ROOT / "tests" / "bad_input"), *arguments], cwd=ROOT, check=False,
                              capture_output=True, text=True)
        if not report.exists():
            raise RuntimeError(f"pytest ended with code {done.returncode} and no report:\n{done.stdout[-3000:]}")
        if done.returncode not in (0, 1):  # interrupted, broken, or no test found
            raise RuntimeError(f"pytest ended with code {done.returncode}:\n{done.stdout[-3000:]}")
        cases = xml.parse(report).getroot().findall(".//testcase")
    failed = [f"{case.get('classname')}.{case.get('name')}" for case in cases
              if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    for name in failed:
        progress(f"FAILED {name}")
    return {"passed": len(cases) - len(failed) - skipped, "failed": len(failed), "skipped": skipped}
