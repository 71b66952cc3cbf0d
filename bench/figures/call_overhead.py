# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a call costs besides its kernels, in microseconds; medians of rounds.

`c_api_us`: the checked C call of a program whose output is its input. `enqueue_us`: a queued call of one kernel whose tensors lie on the
strict device, without the time that the plugin's own slots take. `torch_us_above_dynamo`: x + 1 on eight numbers, kernel included, and
`constants_us`: a Llama of eight layers, all its weights and no kernels (skip_kernels.c), both less what the same call costs with a backend
that returns a tensor made before, which is what Dynamo takes. Inductor's numbers are less the same; its Llama includes its kernels, for
which nothing is left out."""

MEASURES = "microseconds of a call beside its kernels: C API, a queued call, torch.compile, and a network's weights"
NEEDS = "cpu; g++ for Inductor"
MINUTES = 3

GOALS = {"c_api_us": 2.0, "torch_us_above_dynamo": 6.0, "constants_us": 12.0, "enqueue_us": 2.0}
ROUNDS = 21

TORCH = """
import ctypes, json, sys, torch
from figures.call_overhead import through_torch
torch.set_num_threads(1)
print(json.dumps(through_torch(ctypes.CDLL(sys.argv[1]))))
"""


def prepared(result):
    """A backend whose compiled function returns a tensor that was made before."""
    return lambda graph, inputs: lambda *arguments: (result,)


def small_llama():
    """All layers and weights of a Llama, of few features."""
    import torch
    from networks import Output
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=64, intermediate_size=172, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2,
                         vocab_size=256, max_position_embeddings=64)
    model = Output(LlamaForCausalLM(config), "logits", use_cache=False).eval().requires_grad_(False)
    return model, torch.randint(0, 256, (1, 4))


def own(function, name: str):
    """A function of one argument that calls `function`, with code of its own: Dynamo keeps what it compiled by the code, and takes the
    shapes of its arguments for dynamic where code of the same file and name has seen others. `name`: no other function's."""
    names = {"function": function}
    exec(compile("def one(argument):\n    return function(argument)", f"<{name}>", "exec"), names)
    return names["one"]


def calls(function, argument, count: int) -> float:
    import time

    begin = time.perf_counter_ns()
    for _ in range(count):
        function(argument)
    return (time.perf_counter_ns() - begin) / count / 1000


def through_torch(skipping) -> dict:
    """Microseconds of a call by function and backend. `skipping`: skip_kernels.c, preloaded."""
    import ctypes

    import torch
    from measure import compare, median

    skipping.skip_kernels_count.restype = ctypes.c_uint64
    found = {}
    with torch.no_grad():
        model, ids = small_llama()
        for name, function, argument, count in (("add", lambda x: x + 1, torch.zeros(8), 2000), ("llama", model, ids, 300)):
            expected = function(argument)
            expected = expected[0] if isinstance(expected, tuple) else expected
            backends = {"dynamo": {"backend": prepared(expected)}, "ours": {"backend": "mortise", "options": {"device": "cpu"}},
                        "inductor": {"backend": "inductor"}}
            compiled = {}
            for backend, options in backends.items():
                one = torch.compile(own(function, f"{name} {backend}"), **options)
                outputs = one(argument)
                judged = compare(outputs if isinstance(outputs, tuple) else (outputs,), (expected,))
                if not judged.within(1e-5):
                    raise RuntimeError(f"{name}, {backend}: {judged.why_not(1e-5)}")
                compiled[backend] = one
            times = {backend: [] for backend in compiled}
            before = skipping.skip_kernels_count()
            for _ in range(ROUNDS):
                for backend, one in compiled.items():
                    skipping.skip_kernels_set(int(name == "llama"))
                    times[backend].append(calls(one, argument, count))
                    skipping.skip_kernels_set(0)
            skipped = skipping.skip_kernels_count() - before
            if skipped != (ROUNDS * count if name == "llama" else 0):
                raise RuntimeError(f"{name}: {skipped} programs ran no kernels, expected {ROUNDS * count if name == 'llama' else 0}")
            found[name] = {backend: median(values) for backend, values in times.items()}
    return found


def measure(arguments: list[str]) -> dict:
    import json
    import subprocess

    from measure import build_folder, in_fresh_process, make, progress
    from strict import PLUGIN

    program = make("mortise_call_overhead")
    done = subprocess.run([str(program), str(build_folder() / PLUGIN)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{program.name} ended with {done.returncode}: {done.stderr}")
    result = json.loads(done.stdout)
    make("skip_kernels")
    library = str(build_folder() / "lib" / "libskip_kernels.so")
    rows = in_fresh_process(TORCH, library, env={"LD_PRELOAD": library})
    result |= {"torch_us_above_dynamo": rows["add"]["ours"] - rows["add"]["dynamo"],
               "inductor_us_above_dynamo": rows["add"]["inductor"] - rows["add"]["dynamo"],
               "constants_us": rows["llama"]["ours"] - rows["llama"]["dynamo"],
               "inductor_llama_us_above_dynamo": rows["llama"]["inductor"] - rows["llama"]["dynamo"], "rows": rows}
    why = [f"{key} is {result[key]:.2f}, expected at most {goal:g}" for key, goal in GOALS.items() if not result[key] <= goal]
    why += [] if result.pop("right") else ["the C API's outputs are wrong"]
    progress(", ".join(f"{key} {result[key]:.2f}" for key in GOALS))
    return result | {"goals": {"problem": "; ".join(why)}, "passed": not why}
