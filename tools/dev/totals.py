# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""totals.py FOLDER NAME...: adds up the JUnit reports FOLDER/NAME.xml. A runner without a report is a failure, and so is
a runner that ran no test, because its report is empty or all tests were skipped."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count(report: Path) -> tuple[int, int, int]:
    """The numbers of passed, failed and skipped tests."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).iter("testcase"):
        children = {child.tag for child in case}
        if children & {"failure", "error"} or case.get("status") == "fail" or could_not_run(case):
            failed += 1
        elif "skipped" in children or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def could_not_run(case: ElementTree.Element) -> bool:
    """Whether the test's program or files are missing. ctest says "notrun" for these and for tests that skip themselves."""
    reason = case.find("skipped")
    return case.get("status") == "notrun" and (reason is None or not (reason.get("message") or "").startswith("SKIP_"))


def main() -> int:
    if len(sys.argv) < 3:
        print("totals: expected a folder and the names of reports")
        return 2
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    totals = [0, 0, 0]
    for name in names:
        try:
            row = count(folder / f"{name}.xml")
        except (OSError, ElementTree.ParseError) as error:
            print(f"{name}: no report ({error})")
            row = (0, 1, 0)
        if row[0] + row[1] == 0:
            print(f"{name}: ran no test")
            row = (0, 1, row[2])
        print(f"{name:12} {row[0]} passed, {row[1]} failed, {row[2]} skipped")
        totals = [total + value for total, value in zip(totals, row)]
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


sys.exit(main())
