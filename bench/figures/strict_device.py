# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runtime on devices with memory and queues of their own, which check their host (sdk/examples/strict).

Random graphs, half of them symbolic, and six networks with all their layers (on few tokens and pixels, because the devices compute with
the reference interpreter) run over one device and the cpu plugin, over two devices of a kind, and over two kinds. Each runs with many seeds
of delays; every second run of a random graph is of queued calls with tensors on a device. A random graph's results must be the reference
interpreter's, bit by bit; a network's as close to f64 as `parity` asks. The devices find work that nothing orders (`missing_waits`), memory
that the host touches (the process ends), and what is left behind.

`planted`: each wait and each event of runs with random graphs is left out in turn, in calls that wait for their end and in queued calls.
`redundant`: those set aside, because they told nobody of work that was not known before, or because a wrong answer (event_query) did no
harm.
Arguments: graphs, seeds of delays, graphs with plants, names of networks."""

from figures import ArgumentError

MEASURES = "wrong results, missing waits, host touches and leaks on devices that check their host; waits left out in turn, and found"
NEEDS = "cpu"
MINUTES = 15

PLACES = ("strict:0,cpu", "strict:0,strict:1", "strict:0,strict:1,aloof:0")

NETWORK = """
import json, sys, torch
from figures.strict_device import network
torch.set_num_threads(2)
print(json.dumps(network(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
"""


def network(name: str, place: str, seeds: int) -> dict:
    """Runs one network on the devices of `place`, in a process whose plugin path has the strict plugin."""
    import gc

    import networks
    import torch
    import torch_mortise
    from figures.parity import judge
    from measure import built
    from strict import PLUGIN, Control

    torch_mortise.devices()
    control = Control(built(PLUGIN))
    parts = place.count("strict") + place.count("aloof") + ("cpu" in place)
    found = networks.make(name, small=True)
    counts = {"runs": 0, "wrong": 0, "missing_waits": 0, "leaks": 0, "problems": []}
    with torch.no_grad():
        exact_network = found.double()
        exact, eager = exact_network.run(exact_network.module), found.run(found.module)
        control.configure(f"split={parts}")
        before = control.report()["live"]
        compiled = torch.compile(found.module, backend="mortise", options={"device": place})
        for seed in range(seeds):
            control.configure(f"split={parts} seed={seed} delay_us={50 if seed else 0}")
            row = judge({f"seed {seed}": found.run(compiled, found.module)}, eager, exact)
            report = control.report()
            counts["runs"] += 1
            counts["wrong"] += bool(row["problem"])
            counts["missing_waits"] += bool(report["violations"])
            counts["problems"] += [row["problem"]] if row["problem"] else []
            counts["problems"] += report["violations"]
    whole = torch_mortise.last_report()
    calls = report["calls"]
    del compiled, found
    torch._dynamo.reset()
    torch_mortise.reset()
    gc.collect()
    left = {kind: count - before.get(kind, 0) for kind, count in control.report()["live"].items() if count != before.get(kind, 0)}
    counts["leaks"] = int(bool(left))
    counts["problems"] += [f"left behind: {left}"] if left else []
    kernels = calls.get("enqueue", 0)
    eager_parts = [reason for graph in whole["graphs"] for reason in graph["eager"]]
    if eager_parts or not kernels:
        counts["problems"].append(f"expected all of it on the devices; {kernels} kernels ran there, in eager: {eager_parts}")
    return counts | {"kernels": kernels, "copies": calls.get("copy", 0)}


def measure(arguments: list[str]) -> dict:
    import networks
    from measure import built, in_fresh_process, make, progress
    from strict import HOST_TOUCH, PLUGIN, in_parts

    graphs, delays, with_plants = (int(a) for a in [*arguments[:3], *("500", "20", "12")[len(arguments):]])
    for name in arguments[3:]:
        if name not in networks.SMALL:
            raise ArgumentError(f"expected networks among {', '.join(networks.SMALL)}, found {name!r}")
    program, total = make("strict_sweeps"), {"wrong": 0, "missing_waits": 0, "host_touches": 0, "leaks": 0}

    def died(why: str) -> list[str]:
        total["host_touches" if HOST_TOUCH in why else "wrong"] += 1
        return [why]

    def add(row: dict) -> list[str]:
        for key in ("wrong", "missing_waits", "leaks"):
            total[key] += row[key]
        return row["problems"]

    runs, problems, expected = 0, [], graphs * len(PLACES) * delays
    for row, why in in_parts(program, [("graphs", first, min(10, graphs - first), delays) for first in range(0, graphs, 10)]):
        runs += row["runs"] if row else 0
        problems += add(row) if row else died(why)
        progress(f"random graphs: {runs} of {expected} runs, {total}")
    if runs != expected:
        problems.append(f"{runs} runs, expected {expected}")
    rows = {"random graphs": {"runs": runs, "problem": "; ".join(problems[:10])}}

    planted, by_slot, redundant, missed, problems = 0, {}, {}, [], []
    for row, why in in_parts(program, [("waits", graph, 1) for graph in range(with_plants)]):
        if not row:
            problems += died(why)
            continue
        planted += row["planted"]
        missed += row["missed"]
        for counts, found in ((by_slot, row["by_slot"]), (redundant, row["redundant"])):
            for slot, number in found.items():
                counts[slot] = counts.get(slot, 0) + number
        progress(f"waits left out: {planted}, missed: {len(missed)}")
    problems += [f"not found: {one}" for one in missed]
    if planted < 15:
        problems.append(f"{planted} planted, expected 15 or more")
    rows["waits left out"] = {"by_slot": by_slot, "redundant": redundant, "problem": "; ".join(problems[:10])}

    found: dict = {}
    plugins = f"{built('lib/mortise/plugins')}:{built(PLUGIN)}"
    for name in arguments[3:] or networks.SMALL:
        for place in PLACES:
            try:
                row = in_fresh_process(NETWORK, name, place, str(delays), env={"MORTISE_PLUGIN_PATH": plugins})
                problems = add(row)
            except RuntimeError as error:
                row, problems = {"runs": 0, "kernels": 0, "copies": 0}, died(str(error))
            row["problem"] = "; ".join(problems[:10])
            found.setdefault(name, {})[place] = row
            progress(f"{name:9} on {place:26} {row['runs']} runs, {row['kernels']} kernels and {row['copies']} copies in the last, "
                     f"{row['problem'] or 'ok'}")
    judged = [*rows.values(), *(row for places in found.values() for row in places.values())]
    return {**total, "planted": planted, "caught": planted - len(missed), "graphs": graphs, "delays": delays, "rows": rows,
            "networks": found, "passed": not any(row["problem"] for row in judged)}
