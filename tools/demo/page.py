# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo's self-contained HTML page: the table, and the placement as bars over the time of one call."""

from __future__ import annotations

from html import escape

COLOURS = ["#3b6fb6", "#d98032", "#4b9b63", "#a25fb0", "#c2494d", "#7a7a7a", "#3aa6a6", "#b59b2b"]

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse } td { padding: .2rem 1rem .2rem 0; border-bottom: 1px solid #ddd; vertical-align: top }
.region { border: 1px solid #bbb; border-radius: 6px; margin: 1rem 0; padding: .6rem 1rem }
.time { display: flex; height: 46px; border-radius: 4px; overflow: hidden }
.time div { min-width: 1px; box-shadow: inset -1px 0 rgb(255 255 255 / 45%) } .key span { display: inline-block; margin-right: 1.2rem }
.key i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; border-radius: 2px }
.steps td { font: 13px ui-monospace, monospace } .bar { height: .7rem; border-radius: 2px }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #ddd } td { border-color: #333 } }
"""


def rows(result: dict) -> list[tuple[str, str]]:
    """The table: a name and its value, as text."""
    latency, compile_s, parity = result["latency_ms"], result["compile_s"], result["parity"]
    table = [("agreement with eager", f"largest error {parity['max_rel_err']:.1e} of the output's scale, "
                                      f"smallest cosine {parity['min_cosine']:.7f}"
              if not parity["problem"] else f"NO: {parity['problem']}")]
    for name in ("mortise", "eager", "inductor"):
        if name in latency["left_out"]:
            table.append((f"latency, {name}", f"left out: {latency['left_out'][name]}"))
        if name in latency:
            ratio = "" if name == "mortise" else f"   ({latency[name] / latency['mortise']:.2f} x mortise)"
            table.append((f"latency, {name}", f"median {latency[name]:.2f} ms, p95 {latency['p95'][name]:.2f} ms{ratio}"))
    if "corpus" in result:
        corpus = result["corpus"]
        shapes = ", ".join("x".join(map(str, shape)) for shape in corpus["shapes"])
        table.append(("all sentences", f"{corpus['sentences']} in {corpus['again_s'] * 1e3:.0f} ms, eager "
                                       f"{corpus['eager_s'] * 1e3:.0f} ms, both warm (ours the first time, with compiling, "
                                       f"{corpus['first_s']:.2f} s); shapes {shapes}"))
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in result["backend_s"]["stages"].items())
    table += [
        ("first call, fresh process", f"cold {compile_s['cold']:.2f} s, warm {compile_s['warm']:.2f} s, "
                                      f"bare trace {compile_s['trace']:.2f} s"),
        ("inside our backend", f"{result['backend_s']['total']:.2f} s ({stages}; in no stage "
                               f"{result['backend_s']['not_in_stages']:.2f}, waiting for packed weights "
                               f"{result['backend_s']['parts']['bind']:.2f})"),
        ("peak memory", f"{result['peak_memory_mib']:.0f} MiB, of it arena {result['arena_mib']:.1f}, packed weights "
                        f"{result['packed_mib']:.0f}"),
        ("coverage", f"{result['coverage']:.1%} of the operators"),
        ("operators by device", ", ".join(f"{device} {count}" for device, count in result["placement"].items())),
        ("time by lowering", ", ".join(f"{name} {share:.0%}" for name, share in result["time_share"].items())),
    ]
    return table


def _region(region: dict, colours: dict[str, str]) -> str:
    steps = region["steps"]
    total = sum(step["ns"] for step in steps) or 1
    bars = "".join(f'<div style="flex:{step["ns"] / total:.5f} 0 0;background:{colours[step["lowering"]]}" '
                   f'title="{escape(step["name"])}: {step["ns"] / 1e3:.1f} us"></div>' for step in steps)
    longest = max((step["ns"] for step in steps), default=1) or 1
    lines = "".join(f'<tr><td>{escape(step["name"])}</td><td>{escape(step["lowering"])}</td><td>{step["ns"] / 1e3:.1f} us</td>'
                    f'<td style="width:16rem"><div class="bar" style="width:{100 * step["ns"] / longest:.1f}%;'
                    f'background:{colours[step["lowering"]]}"></div></td></tr>' for step in steps)
    return (f'<div class="region"><b>{escape(region["device"])}</b> by plugin {escape(region["plugin"])}, lowering '
            f'{escape(region["lowering"])}: {len(region["nodes"])} operators in {len(steps)} steps, {total / 1e6:.2f} ms'
            f'<div class="time">{bars}</div><details><summary>steps</summary><table class="steps">{lines}</table></details></div>')


def render(result: dict, report: dict) -> str:
    """The page's HTML; `report` is torch_mortise.last_report() after a profiled run."""
    programs = [graph["program"] for graph in report["graphs"] if graph.get("program")]
    regions = [region for program in programs for region in program["placement"]]
    lowerings = dict.fromkeys(step["lowering"] for region in regions for step in region["steps"])
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(lowerings)}
    key = "".join(f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in colours.items())
    table = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows(result))
    eager = [entry for graph in report["graphs"] for entry in graph["eager"]]
    left = "".join(f"<li>{escape(str(entry['op']))}: {escape(str(entry['reason']))}</li>" for entry in eager)
    pairs = "".join(f"<tr><td>{score:.3f}</td><td>{escape(first)}<br>{escape(second)}</td></tr>"
                    for score, first, second in result.get("corpus", {}).get("nearest", []))
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Mortise: {escape(result["model"])}</title><style>{STYLE}</style>
<h1>{escape(result["model"])} on {escape(result["device"])}</h1><table>{table}</table>
<h2>Where it ran</h2><p>The width of a bar is its share of one profiled call; point at it to see the step.</p>
<p class="key">{key}</p>{"".join(_region(region, colours) for region in regions)}
{f"<h2>Left to eager PyTorch</h2><ul>{left}</ul>" if eager else ""}
{f"<h2>Nearest pairs</h2><table>{pairs}</table>" if pairs else ""}
<p>Machine: {escape(result["machine"]["cpu"])}, {result["machine"]["threads"]} threads; torch {escape(result["machine"]["torch"])};
commit {escape(result["machine"]["commit"])}.</p></html>
"""
