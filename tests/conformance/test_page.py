# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `mortise-conformance` as headless Chromium shows it. The page itself has no script; the tests put one into a copy."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_conformance import FAILED, FAULTS, GOOD, PLUGINS, judge, judge_template

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(not BROWSER, reason="expected chromium-headless-shell, found none; ./dev setup installs it")

# What is seen, as JSON. A box is what an element takes of the screen; a color of nothing is "rgba(0, 0, 0, 0)".
LOOK = """
<script>addEventListener("load", () => {
  const all = what => [...document.querySelectorAll(what)], box = e => e.getBoundingClientRect();
  const style = e => getComputedStyle(e);
  const seen = {
    width: innerWidth,
    needed: document.documentElement.scrollWidth,
    loaded: [...performance.getEntriesByType("resource").map(e => e.name), ...all("[src], link[href]").map(e => e.outerHTML)],
    empty: all("h1, h2, table, svg, pre").filter(e => !box(e).width || !box(e).height).map(e => e.outerHTML.slice(0, 80)),
    cut: all("pre, p, td:not(.scroll td)").filter(e => box(e).right > innerWidth + 1 && !e.closest(".scroll"))
      .map(e => e.outerHTML.slice(0, 80)),
    bad: all(".matrix .bad").map(e => [e.innerText, style(e).backgroundColor, style(e).color]),
    good: all(".matrix .good").map(e => [e.innerText, style(e).color]),
    background: style(document.body).backgroundColor,
    outside: all("svg *").filter(e => { const s = box(e.ownerSVGElement), b = box(e);
      return b.width + b.height > 0 && (b.left < s.left - 2 || b.right > s.right + 2 || b.top < s.top - 2 || b.bottom > s.bottom + 2);
    }).map(e => e.outerHTML.slice(0, 80)),
    circles: all("svg circle").length,
    commands: all("pre, code").map(e => e.innerText).filter(text => text.includes("--case")),
  };
  const found = document.createElement("script");
  found.type = "application/json", found.id = "found", found.textContent = JSON.stringify(seen);
  document.body.append(found);
});</script>
"""


def looked_at(report: Path, width: int) -> dict:
    """What Chromium makes of a report's page in a window of this width. Keeps a picture beside the page."""
    copy = report / "looked-at.html"
    copy.write_text((report / "report.html").read_text().replace("</body>", LOOK + "</body>"))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},1200",
               f"--user-data-dir={report / 'browser'}", "--enable-logging=stderr", "--virtual-time-budget=5000"]
    ran = subprocess.run([*command, "--dump-dom", copy.as_uri()], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert "CONSOLE" not in ran.stderr, f"the page says something to the console: {ran.stderr}"
    found = re.search(r'<script type="application/json" id="found">(.*?)</script>', ran.stdout, re.DOTALL)
    assert found, ran.stdout[-2000:] + ran.stderr
    picture = report / f"page-{width}.png"
    subprocess.run([*command, f"--screenshot={picture}", (report / "report.html").as_uri()], capture_output=True, timeout=100, check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
    return json.loads(found[1])


def check(seen: dict):
    assert not seen["loaded"], "what comes from elsewhere"
    assert not seen["empty"], "what takes no room on the screen"
    assert not seen["cut"], "text beyond the window"
    assert not seen["outside"], "parts of pictures beyond their frame"
    assert seen["needed"] <= seen["width"] + 1, "the page is wider than the window"


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failing")
    judge_template(folder, FAULTS["the last element is left out"][0], status=FAILED)
    return folder / "out"


@pytest.mark.parametrize("width", [1400, 600])
def test_failures_stand_out(failing, width):
    seen = looked_at(failing, width)
    check(seen)
    report = json.loads((failing / "report.json").read_text())
    failed = [line["case"] for line in report["cases"] if line["outcome"] == "failed"]
    assert seen["bad"] and all(background != "rgba(0, 0, 0, 0)" and color == "rgb(255, 255, 255)" for _, background, color in seen["bad"])
    assert failed and all(any(case in command for command in seen["commands"]) for case in failed[:20])


def test_a_page_without_failures(tmp_path):
    judge(PLUGINS / "libmortise_reference.so", tmp_path, "--quick", "--op", "add,exp,reduce_sum", status=GOOD)
    seen = looked_at(tmp_path, 1400)
    check(seen)
    assert not seen["bad"]
    assert seen["good"] and all(text.strip() and color != seen["background"] for text, color in seen["good"])


def test_rooflines_are_pictures(tmp_path):
    judge(PLUGINS / "libmortise_cpu.so", tmp_path, "--quick", "--level", "perf", "--op", "add,exp,dot", status=GOOD)
    seen = looked_at(tmp_path, 1400)
    check(seen)
    assert seen["circles"] >= 3


@pytest.mark.parametrize("fault, why", [
    ("<div style='width: 3000px; height: 9px'></div>", "the page is wider"),
    ("<p style='width: 3000px'>long</p>", "text beyond the window"),
    ("<img src='picture.png'>", "from elsewhere"),
    ("<h2></h2>", "no room on the screen"),
    ("<script>console.error('wrong')</script>", "to the console"),
    ("<svg width='90' height='30' style='overflow: visible'><text x='80' y='20'>beyond its frame</text></svg>", "beyond their frame"),
])
def test_what_would_be_wrong_is_seen(failing, tmp_path, fault, why):
    page = (failing / "report.html").read_text()
    (tmp_path / "report.html").write_text(page.replace("</body>", fault + "</body>"))
    with pytest.raises(AssertionError, match=why):
        check(looked_at(tmp_path, 1400))
