# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C++ example of a server on the runtime alone (frontend/capi/examples/server.cpp) with MiniLM on the cpu plugin.

torch.compile writes the graph, `mortise compile` the program; neither runs while the server does. `cold_ms`: from the start of the process
to its first answer, median of five starts; `cold_compiled_ms`: the same where kernels are compiled, not taken from the program's file.
`bytes`: the server, the libraries of ours that it loads, and the libraries that those bring (oneDNN), but not program and weights.
`callers.N`: N clients in processes of their own, each with one connection, send a request when the last one is answered; each answer is
compared with eager's."""

MEASURES = "a C++ server without compiler and Python: bytes installed, cold start, peak memory, latency at 1, 2 and 4 callers"
NEEDS = "cpu"
MINUTES = 2

SECONDS, CALLERS, STARTS = 6.0, (1, 2, 4), 5

SAVE = """
import json, sys
from figures.server import save
print(json.dumps(save(sys.argv[1])))
"""
CLIENT = """
import json, sys
from figures.server import client
print(json.dumps(client(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
"""


def save(folder: str) -> dict:
    """Writes model.mrtg, weights.bin, request.bin and answer.bin of MiniLM."""
    from pathlib import Path

    import networks
    import torch
    from torch_mortise import region

    def dense(tensor) -> bytes:
        """The bytes of a dense tensor in the order of its memory."""
        return torch.as_strided(tensor, (tensor.numel(),), (1,)).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""

    network, seen, original = networks.make("minilm"), [], region.Region.__call__

    def watched(one, arguments, key, profile=False):
        result = original(one, arguments, key, profile)
        seen.append((one.specialisation(key), arguments))
        return result

    region.Region.__call__ = watched
    with torch.no_grad():
        compiled = torch.compile(network.module, backend="mortise", options={"device": "cpu", "save_graphs": folder})
        network.run(compiled, network.module)
        expected = network.run(network.module)
    (found, arguments), = seen
    (graph,), (answer,) = Path(folder).glob("*.mrtg"), expected
    graph.rename(Path(folder, "model.mrtg"))
    weights, request = b"", b""
    strides = {number: (shape, stride) for number, _, _, _, _, shape, stride, *_ in found.constants}
    positions = [position for position, *_ in found.inputs]
    for number in range(found.input_count):
        if number in strides:
            source = found.sources[number].contiguous()
            shape, stride = strides[number]
            weights += dense(torch.empty_strided(shape, stride, dtype=source.dtype).copy_(source))
        else:
            request += dense(arguments[positions[number]].contiguous())
    for name, content in (("weights.bin", weights), ("request.bin", request), ("answer.bin", dense(answer.contiguous()))):
        Path(folder, name).write_bytes(content)
    return {"weights": len(weights), "request": len(request), "answer": len(dense(answer.contiguous()))}


def ask(connection, request: bytes, size: int) -> bytes:
    connection.sendall(request)
    answer = bytearray()
    while len(answer) < size:
        part = connection.recv(size - len(answer))
        if not part:
            raise RuntimeError("the server closed the connection")
        answer += part
    return bytes(answer)


def is_right(answer: bytes, expected: bytes) -> bool:
    import numpy
    import torch
    from measure import ERROR_LIMIT, compare

    found, wanted = (torch.from_numpy(numpy.frombuffer(one, numpy.float32).copy()) for one in (answer, expected))
    return compare((found,), (wanted,)).within(ERROR_LIMIT)


def client(folder: str, port: int, seconds: float) -> dict:
    """Latencies in milliseconds of one caller, and how many answers were wrong."""
    import socket
    import time
    from pathlib import Path

    request, expected = Path(folder, "request.bin").read_bytes(), Path(folder, "answer.bin").read_bytes()
    times, answers = [], {}
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            begin = time.perf_counter_ns()
            answer = ask(connection, request, len(expected))
            times.append((time.perf_counter_ns() - begin) / 1e6)
            answers[answer] = answers.get(answer, 0) + 1
    return {"ms": times, "failed": sum(count for answer, count in answers.items() if not is_right(answer, expected))}


def libraries(program) -> set:
    """The program, and the libraries that it and the cpu plugin load from the build or from the virtual environment."""
    import subprocess
    import sys
    from pathlib import Path

    from measure import ROOT, built

    folders = [ROOT.resolve(), Path(sys.prefix).resolve()]  # the virtual environment may be a link to another place
    plugin = built("lib/mortise/plugins/libmortise_cpu.so")
    found = {Path(program).resolve(), plugin.resolve()}
    for file in (program, plugin):
        lines = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True).stdout.splitlines()
        paths = [Path(line.split("=>")[1].split("(")[0].strip()) for line in lines if "=> /" in line]
        found |= {path.resolve() for path in paths if any(path.resolve().is_relative_to(folder) for folder in folders)}
    return found


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, round(share * (len(values) - 1)))]


def measure(arguments: list[str]) -> dict:
    import concurrent.futures
    import contextlib
    import os
    import re
    import socket
    import subprocess
    import tempfile
    import time
    from pathlib import Path

    from measure import built, in_fresh_process, make, median, progress

    program = make("mortise-server-example")
    with tempfile.TemporaryDirectory() as folder:
        sizes = in_fresh_process(SAVE, folder)
        model = str(Path(folder, "model.mrtp"))
        subprocess.run([str(built("bin/mortise")), "compile", str(Path(folder, "model.mrtg")), "-o", model, "--device", "cpu"], check=True,
                       stdout=subprocess.DEVNULL)
        request, expected = Path(folder, "request.bin").read_bytes(), Path(folder, "answer.bin").read_bytes()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MORTISE_", "LD_"))}
        environment |= {"MORTISE_PLUGIN_PATH": str(built("lib/mortise/plugins")), "MORTISE_KERNEL_CACHE": "off"}

        @contextlib.contextmanager
        def serving(**settings):
            """(the process, its port, milliseconds to its first answer, whether that was wrong)"""
            began = time.perf_counter()
            server = subprocess.Popen([str(program), model, str(Path(folder, "weights.bin")), "127.0.0.1", "0"], stdout=subprocess.PIPE,
                                      text=True, env=environment | settings)
            try:
                said = server.stdout.readline()
                if not (port := re.search(r":(\d+)$", said.strip())):
                    raise RuntimeError(f"the server did not start: {said!r}, exit status {server.wait(10)}")
                with socket.create_connection(("127.0.0.1", int(port[1]))) as connection:
                    first = ask(connection, request, len(expected))
                yield server, int(port[1]), (time.perf_counter() - began) * 1000, not is_right(first, expected)
            finally:
                server.kill()
                server.wait()

        failed, rows, cold = 0, {}, {"on": [], "off": []}
        for saved in ["on", "off"] * STARTS:
            with serving(MORTISE_SAVED_KERNELS=saved) as (_, _, ms, wrong):
                cold[saved].append(ms)
                failed += wrong
        with serving() as (server, port, _, wrong):
            failed += wrong
            for callers in CALLERS:
                with concurrent.futures.ThreadPoolExecutor(callers) as pool:
                    found = list(pool.map(lambda _: in_fresh_process(CLIENT, folder, str(port), str(SECONDS)), range(callers)))
                times = [ms for one in found for ms in one["ms"]]
                failed += sum(one["failed"] for one in found)
                rows[str(callers)] = {"p50_ms": percentile(times, 0.5), "p99_ms": percentile(times, 0.99), "requests": len(times)}
                progress(f"{callers} callers: p50 {rows[str(callers)]['p50_ms']:.2f} ms, p99 {rows[str(callers)]['p99_ms']:.2f} ms")
            status = Path(f"/proc/{server.pid}/status").read_text()
            peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
            loaded = Path(f"/proc/{server.pid}/maps").read_text()
    files = libraries(program)
    why = [f"{failed} answers are wrong"] if failed else []
    why += [f"the server loaded {name}" for name in ("libmortise.so", "libpython", "libMLIR", "libLLVM") if name in loaded]
    installed = sum(file.stat().st_size for file in files)
    cold_ms, compiled_ms = median(cold["on"]), median(cold["off"])
    progress(f"cold start {cold_ms:.0f} ms ({compiled_ms:.0f} ms with compilation), peak {peak:.0f} MB, {installed / 1e6:.0f} MB installed")
    return {"bytes": installed, "files": {file.name: file.stat().st_size for file in files}, "weights_bytes": sizes["weights"],
            "cold_ms": cold_ms, "cold_compiled_ms": compiled_ms, "peak_mb": peak, "callers": rows, "failed": failed,
            "answers": {"problem": "; ".join(why)}, "passed": not why and all(row["requests"] > 0 for row in rows.values())}
