# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How tight the error bounds of the conformance kit are. Of every case with bounds, the largest share of an element's bound that its
distance from the exact result takes is known; here for the cpu plugin, for PyTorch eager, and for the reference with f32 arithmetic (f64's
in f64). `ops.NAME`, for each op and element type: of the element with the largest share the `bound` in units in the last place, the `worst`
error, and their `ratio`; `by`: who computed it; `long`: the ratio among large shapes alone, so that short sums do not hide long ones.
`unexplained`: ratios above MOST without a line in the table of docs/conformance/error-bounds.md. `beyond`: results outside their bounds,
which fail, but for those of eager that the page's second table lists. Arguments: patterns of ops."""

MEASURES = "error bounds of each op and element type, beside the worst error of cpu, PyTorch eager and the f32 reference"
NEEDS = "cpu"
MINUTES = 12

MOST = 8.0
SEEDS = (1, 2)


def add(ops: dict, beyond: dict, by: str, verdicts: list[dict], dtypes) -> int:
    """Takes over a judge's verdicts; returns how many cases had bounds."""
    used = 0
    for line in verdicts:
        op, dtype, shape = line["case"].split("/")[:3]
        name = f"{op}/{dtype}"
        if dtype not in dtypes or line["outcome"] == "refused":
            continue
        if line["outcome"] != "passed":
            beyond.setdefault(by, []).append(f"{line['case']}: {line.get('why', line['outcome'])}")
        elif share := line.get("share", 0):
            used += 1
            row = ops.setdefault(name, {"share": 0, "long_share": 0})
            if share > row["share"]:
                row |= {"share": share, "bound": line["bound"], "by": by}
            if shape == "large":
                row["long_share"] = max(row["long_share"], share)
    return used


def in_f32():
    """The reference with f32 arithmetic, a plugin that is not installed."""
    from measure import build_folder

    return build_folder() / "ir" / "reference" / "f32" / "libmortise_reference_f32.so"


def measure(arguments: list[str]) -> dict:
    import os
    from concurrent.futures import ThreadPoolExecutor

    import eager
    import kit
    from measure import make, progress

    floats = ("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2")
    make("mortise_plugin_reference_f32")
    wanted = ("--op", ",".join(arguments)) if arguments else ()
    ops, beyond, used = {}, {}, {}
    loose, known = kit.bound_tables()
    # Times do not matter here, so that a machine of more than two cores judges more at once.
    cores = os.cpu_count() or 2

    def judged(by: str, seed: int) -> list[dict]:
        run = ("--level", "core,composite,quantised", "--seed", seed, *wanted)
        if by == "eager":
            lines = eager.judge(*run)
        else:
            plugin = {"cpu": kit.CPU, "reference": kit.PLUGINS / "libmortise_reference.so", "reference in f32": in_f32()}[by]
            expected = ("--expectations", kit.CPU_EXPECTATIONS) if by == "cpu" else ()
            lines = [line for line in kit.run(plugin, *run, *expected, jobs=max(cores // 2, 2))["cases"] if not line.get("expected")]
        progress(f"{by}, seed {seed}: {len(lines)} cases")
        return lines

    dtypes = {"cpu": floats, "reference": ("f64",), "reference in f32": floats, "eager": floats}  # that in f32 refuses f64
    with ThreadPoolExecutor(max(cores // 2, 1)) as pool:
        runs = [(by, pool.submit(judged, by, seed)) for by in ("eager", "cpu", "reference", "reference in f32") for seed in SEEDS]
        for by, lines in runs:
            used[by] = used.get(by, 0) + add(ops, beyond, by, lines.result(), dtypes[by])
    of_eager = [text for text in beyond.get("eager", []) if kit.explained(known, "/".join(text.split("/")[:2]))]
    failures = [f"{by}: {text}" for by, texts in beyond.items() for text in texts if by != "eager" or text not in of_eager]
    rows, unexplained = {}, []
    for name, row in sorted(ops.items()):
        ratio = 1 / row["share"]
        rows[name] = {"bound": row["bound"], "worst": row["share"] * row["bound"], "ratio": ratio, "by": row["by"]}
        if row["long_share"]:
            rows[name]["long"] = 1 / row["long_share"]
        if ratio > MOST and not kit.explained(loose, name):
            unexplained.append(f"{name}: {ratio:.1f}")
    if not rows:
        raise RuntimeError("no case has a result with a bound")
    why = [f"no bound of {by} was used" for by, count in used.items() if not count] + failures[:1]
    why += [f"{row} times above the worst error, without a reason" for row in unexplained[:1]]
    return {"max_ratio": max(row["ratio"] for row in rows.values()), "unexplained": len(unexplained), "unexplained_rows": unexplained,
            "explained": sorted(name for name, row in rows.items() if row["ratio"] > MOST and kit.explained(loose, name)),
            "cases": used, "beyond": failures[:60], "beyond_count": len(failures), "eager_beyond_known": len(of_eager), "ops": rows,
            "verdict": {"problem": "; ".join(why)}, "passed": not why}
