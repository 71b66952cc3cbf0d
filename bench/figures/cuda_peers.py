# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks in bf16 on an NVIDIA GPU: ours beside eager, Inductor (default) and Inductor with CUDA graphs (reduce-overhead), in one run.

    ..._ms      device and host together: the time between two synchronisations over calls back to back, median of rounds
    cold_s      first call of ours, tracing included; trace_s: the same of a backend that runs the traced graph as it is
    error       ours from eager, relative to the output's scale (both round to bf16)

A decode step reads a cache of 1024 positions that is full but for the calls of a round. A prefill starts from an empty cache, which is
emptied in the time of each call, the peers' too.
A row passes when ours agrees with eager, is at least as fast as reduce-overhead and as what is due by itself (MOST_MS), and begins
within two seconds beyond the trace; `missed` says which of these it misses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpu_rows

MEASURES = "ms of networks on an NVIDIA GPU beside eager, Inductor and reduce-overhead; cold compile time"
NEEDS = "gpu; PyTorch with CUDA; transformers"
MINUTES = 8

ROUNDS, CALLS = 7, 30
TOLERANCE = 0.06
MOST_COLD_S = 2  # beyond the trace
MOST_MS = {"llama-1b decode": 0.85}
COMPILERS: dict = {"trace": {"backend": "aot_eager"}, "mortise": {"backend": "mortise", "options": {"device": "cuda"}}, "inductor": {},
                   "reduce_overhead": {"mode": "reduce-overhead"},
                   # the same bargain as the peer's: products are captured, which other threads see
                   "mortise_reduce_overhead": {"backend": "mortise", "options": {"device": "cuda", "cuda.graphs": "all"}}}


@dataclass
class Case:
    """A network of bf16 on the GPU, in whose memory its inputs lie."""

    module: Any
    inputs: tuple
    before_round: Callable[[], Any] = lambda: None  # of calls, not timed
    before_call: Callable[[], Any] = lambda: None  # timed with each


def makers() -> dict[str, Callable[[], Case]]:
    import networks
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    def batched(name, count):
        network = networks.make(name)
        network.module.to("cuda", torch.bfloat16).eval().requires_grad_(False)
        inputs = tuple(x.repeat(count, *[1] * (x.dim() - 1)).to("cuda") for x in network.inputs)
        return Case(network.module, tuple(x.to(torch.bfloat16) if torch.is_floating_point(x) else x for x in inputs))

    def ids(tokens):
        return torch.randint(0, 128256, (1, tokens), device="cuda")

    def llama(cache):
        config = LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                             head_dim=64, vocab_size=128256, max_position_embeddings=cache, tie_word_embeddings=True)
        with torch.device("cuda"):
            model = LlamaForCausalLM(config).to(torch.bfloat16)
        return networks.CachedDecoder(model.eval().requires_grad_(False), cache_length=cache)

    def decode(cache):
        decoder, prompt = llama(cache), ids(cache - CALLS)

        def fill():
            decoder.prepare()
            decoder(prompt)

        return Case(decoder, (ids(1),), before_round=fill)

    def prefill(tokens, cache):
        decoder = llama(cache)
        return Case(decoder, (ids(tokens),), before_call=decoder.prepare)

    return {"bert b1": lambda: batched("bert", 1), "bert b32": lambda: batched("bert", 32), "resnet50 b1": lambda: batched("resnet50", 1),
            "resnet50 b32": lambda: batched("resnet50", 32), "vit b1": lambda: batched("vit", 1), "llama-1b decode": lambda: decode(1024),
            "llama-1b prefill 512": lambda: prefill(512, 1024)}


def measure(arguments: list[str]) -> dict:
    def one(name: str, make: Callable) -> dict:
        result = row(make)
        result["missed"] = missed(name, result)
        return result | {"passed": not result["missed"]}

    return gpu_rows.measured(makers(), arguments, one)


def row(make) -> dict:
    import time

    import torch
    from measure import compare

    result: dict = {}
    with torch.no_grad():
        case = make()
        calls = {"eager": case.module}
        expected = [t.clone() for t in first(case, case.module)]
        for key, options in COMPILERS.items():
            torch._dynamo.reset()
            compiled = torch.compile(case.module, dynamic=False, **options)
            case.before_round()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            try:
                case.before_call()
                out = compiled(*case.inputs)
                torch.cuda.synchronize()
            except Exception as error:
                result[f"{key}_error"] = f"{type(error).__name__}: {str(error)[:200]}"
                continue
            seconds = time.perf_counter() - begin
            if key == "trace":
                result["trace_s"] = round(seconds, 2)
                continue
            if key == "mortise":
                result["cold_s"] = round(seconds, 2)
                agreement = compare([t.float().cpu() for t in out], [t.float().cpu() for t in expected])
                result["error"] = agreement.error
                if agreement.problem:
                    result["problem"] = agreement.problem
            calls[key] = compiled
        times: dict = {key: [] for key in calls}
        for call in calls.values():
            timed(case, call, 3)
        for _ in range(ROUNDS):
            for key, call in calls.items():
                times[key].append(timed(case, call, CALLS))
    for key, measured in times.items():
        result[f"{key}_ms"] = round(sorted(measured)[ROUNDS // 2], 4)
    return result


def missed(name: str, row: dict) -> list[str]:
    """What a row lacks to pass. NaN, and numbers that are not there, are never good enough."""
    nan = float("nan")
    ours = min((row[key] for key in ("mortise_ms", "mortise_reduce_overhead_ms") if key in row), default=nan)
    good = {"agreement": row.get("error", nan) <= TOLERANCE, "reduce-overhead": ours <= row.get("reduce_overhead_ms", nan),
            "ms": ours <= MOST_MS.get(name, float("inf")), "cold": row.get("cold_s", nan) - row.get("trace_s", nan) <= MOST_COLD_S}
    return [what for what, is_good in good.items() if not is_good]


def first(case: Case, call) -> Any:
    """What the first call of a round gives."""
    import torch

    case.before_round()
    torch.compiler.cudagraph_mark_step_begin()
    case.before_call()
    return call(*case.inputs)


def timed(case: Case, call, count: int) -> float:
    """Milliseconds of one call, over `count` of them back to back, CALLS at most."""
    import time

    import torch

    case.before_round()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        torch.compiler.cudagraph_mark_step_begin()
        case.before_call()
        call(*case.inputs)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e3 / count
