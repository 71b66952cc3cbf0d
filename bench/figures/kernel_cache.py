# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled kernels on disk: what a second process saves, and what happens to the cache when several write, when the disk is full, and
when files are damaged.

`networks`: for each network one process fills an empty cache and the next finds its kernels there. `seconds` is the second one's time
inside our backend (`compile_first`: `ours_s`) without the wait for packed weights, which is `packing_wait_s`; packing itself takes
`packing_s`. `first_s` is the same of the process that filled the cache. Every region must be a hit, and the outputs eager's.

`cases`: calls of the command `mortise` on one graph, whose outputs must have the bits that they have without a cache, whatever became of
the cache. A limit on the size of files stands for a full disk."""

MEASURES = "seconds inside our backend when the kernels are on disk; the cache under eight writers, a full disk, damage"
NEEDS = "cpu, the product build"
MINUTES = 3

GOAL = 0.05  # seconds without packing
WRITERS = 8

FIRST_CALL = """
import json, sys, torch, networks, torch_mortise
from figures.compile_first import first_call
torch.set_num_threads(2)
run = first_call(networks.make(sys.argv[1]), "mortise")
programs = [program for graph in torch_mortise.last_report()["graphs"] for program in graph["programs"]]
run["cached"] = [region["kernel_cache"] for program in programs for region in program["placement"]]
print(json.dumps(run))
"""

GRAPH = """
func.func @cached(%x: tensor<4x24xf32>, %y: tensor<4x24xf32>) -> (tensor<4x24xf32>, tensor<4x4xf32>) {
  %0 = mortise.add %x, %y : (tensor<4x24xf32>, tensor<4x24xf32>) -> tensor<4x24xf32>
  %1 = mortise.exp %0 : (tensor<4x24xf32>) -> tensor<4x24xf32>
  %2 = mortise.softmax %1 {axis = 1 : i64} : (tensor<4x24xf32>) -> tensor<4x24xf32>
  %3 = mortise.dot %2, %1 {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} :
    (tensor<4x24xf32>, tensor<4x24xf32>) -> tensor<4x4xf32>
  %4 = mortise.tanh %3 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2, %4 : tensor<4x24xf32>, tensor<4x4xf32>
}
"""


def seconds(run: dict) -> float:
    parts = run["backend"]["parts"]
    return parts["call"] + parts["late"]


def measure_network(name: str) -> dict:
    import tempfile

    from measure import in_fresh_process

    with tempfile.TemporaryDirectory() as folder:
        runs = [in_fresh_process(FIRST_CALL, name, env={"XDG_CACHE_HOME": folder, "MORTISE_KERNEL_CACHE": "on"}) for _ in range(2)]
    first, second = runs
    problems = [run["problem"] for run in runs if run["problem"]]
    problems += [f"the first process found a kernel: {first['cached']}"] if "hit" in first["cached"] else []
    problems += [f"expected hits only, found {second['cached']}"] if set(second["cached"]) != {"hit"} else []
    row = {"seconds": seconds(second), "packing_s": second["backend"]["packing"], "packing_wait_s": second["backend"]["parts"]["bind"],
           "stages_s": second["backend"]["stages"], "first_s": seconds(first), "first_stages_s": first["backend"]["stages"],
           "first_call_s": second["seconds"], "problem": "; ".join(problems)}
    if not problems and row["seconds"] > GOAL:
        row["problem"] = f"{row['seconds']:.3f} s, expected at most {GOAL}"
    return row | {"passed": not row["problem"]}


class Cases:
    """Runs the command on one graph, and compares its outputs with those without a cache."""

    def __init__(self, folder):
        from measure import built

        self.folder, self.mortise = folder, str(built("bin/mortise"))
        self.graph = folder / "graph.mlir"
        self.graph.write_text(GRAPH)
        self.expected = self.outputs(self.start("off", "expected"), "expected")

    def start(self, cache, name, limit=None, arguments=("run",), **environment):
        import os
        import resource
        import signal
        import subprocess

        def limited():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        more = ["-o", str(self.folder / name)] if arguments == ("run",) else []
        return subprocess.Popen([self.mortise, arguments[0], str(self.graph), "--device", "cpu", *arguments[1:], *more],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limited if limit else None,
                                env=os.environ | {"MORTISE_KERNEL_CACHE": str(cache)} | environment)

    def outputs(self, process, name) -> bytes:
        out, err = process.communicate(timeout=120)
        if process.returncode:
            raise RuntimeError(f"mortise ended with {process.returncode}: {err[-500:]}{out[-200:]}")
        return (self.folder / name).read_bytes()

    def right(self, cache, name, **more) -> str:
        found = self.outputs(self.start(cache, name, **more), name)
        return "" if found == self.expected else "the outputs are wrong"

    def states(self, cache, **environment) -> list[str]:
        """Of every region, whether its kernel came from the cache, or why not."""
        import json

        process = self.start(cache, "", arguments=("bench", "--json", "--seconds", "0.01"), **environment)
        out, err = process.communicate(timeout=120)
        if process.returncode:
            raise RuntimeError(f"mortise ended with {process.returncode}: {err[-500:]}")
        return [region["kernel_cache"] for region in json.loads(out)["regions"]]

    # ---- the cases: each returns what is wrong, or ""

    def hits(self, cache):
        return self.right(cache, "one") or self.right(cache, "two") or self.expect(cache, "hit")

    def expect(self, cache, state, **environment):
        found = self.states(cache, **environment)
        return "" if found and all(state in each for each in found) else f"expected {state!r}, found {found}"

    def eight_writers(self, cache):
        running = [(self.start(cache, f"writer{i}"), f"writer{i}") for i in range(WRITERS)]
        found = {self.outputs(process, name) for process, name in running}
        left = [file.name for file in cache.iterdir() if file.suffix != ".kernel"]
        return ("" if found == {self.expected} else "outputs differ") or (f"left behind: {left}" if left else self.expect(cache, "hit"))

    def eight_readers_beside_damage(self, cache):
        self.right(cache, "fill")
        running = []
        for i in range(WRITERS):
            running.append((self.start(cache, f"reader{i}"), f"reader{i}"))
            for file in cache.glob("*.kernel"):
                file.write_bytes(b"damaged while others read")
        found = {self.outputs(process, name) for process, name in running}
        return "" if found == {self.expected} else "outputs differ"

    def full_disk(self, cache):
        problem = self.right(cache, "full", limit=len(self.expected))
        left = list(cache.iterdir())
        return problem or (f"left behind: {left}" if left else self.expect(cache, "no entry"))

    def damaged(self, cache, damage):
        self.right(cache, "fill")
        files = list(cache.glob("*.kernel"))
        for file in files:
            damage(file)
        return ("" if files else "nothing was kept") or self.expect(cache, "damaged") or self.right(cache, "again") or \
            self.expect(cache, "hit")

    def flipped(self, cache):
        def damage(file):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)

        return self.damaged(cache, damage)

    def truncated(self, cache):
        return self.damaged(cache, lambda file: file.write_bytes(file.read_bytes()[:-1]))

    def emptied(self, cache):
        return self.damaged(cache, lambda file: file.write_bytes(b""))

    def another_instruction_set(self, cache):
        self.right(cache, "fill")
        return self.expect(cache, "no entry", MORTISE_CPU_ISA="x86-64-v2") or self.expect(cache, "hit")

    def another_option(self, cache):
        self.right(cache, "fill")
        return self.expect(cache, "no entry", MORTISE_DETERMINISTIC="true") or self.expect(cache, "hit")

    def folder_of_others(self, cache):
        cache.mkdir()
        cache.chmod(0o777)
        return self.right(cache, "others") or self.expect(cache, "may be written to by other users")

    def file_in_place_of_the_folder(self, cache):
        cache.write_text("a file")
        return self.right(cache, "file") or self.expect(cache, "is no folder")

    def small_limit(self, cache):
        problem = self.right(cache, "small", MORTISE_KERNEL_CACHE_BYTES="100")
        return problem or (f"kept beyond the limit: {list(cache.iterdir())}" if list(cache.iterdir()) else "")


CASES = ("hits", "eight_writers", "eight_readers_beside_damage", "full_disk", "flipped", "truncated", "emptied",
         "another_instruction_set", "another_option", "folder_of_others", "file_in_place_of_the_folder", "small_limit")


def run_cases() -> dict[str, str]:
    import tempfile
    from pathlib import Path

    from measure import progress

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(Path(folder))
        for name in CASES:
            try:
                found[name] = getattr(cases, name)(Path(folder) / f"kernels-{name}")
            except (RuntimeError, OSError) as error:
                found[name] = f"{type(error).__name__}: {error}"
            progress(f"{name.replace('_', ' ')}: {found[name] or 'right'}")
    return found


def measure(arguments: list[str]) -> dict:
    import networks
    from measure import progress

    rows = {}
    for name in arguments or networks.MAKERS:
        networks.check(name)
        row = rows[name] = measure_network(name)
        progress(f"{name:9} {row['seconds']:.3f} s inside our backend, {row['first_s']:.3f} without the cache; packing "
                 f"{row['packing_s']:.3f} s {row['problem']}")
    cases = run_cases()
    failed = sum(bool(problem) for problem in cases.values())
    return {"networks": rows, "cases": {name: {"problem": problem} for name, problem in cases.items()},
            "passed": len(cases) - failed, "failed": failed}
