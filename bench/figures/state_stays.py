# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A decoder whose cache and weights lie in a device's memory: Llama's decoding step, as torch.compile hands it over, on the strict plugin.
Each call gets a token from the host and gives logits to it. `bytes_beyond` is what one call copies to, from or between devices beyond
these. The outputs and the cache are compared with the reference interpreter bit by bit."""

MEASURES = "bytes that a decoding step copies beyond its token and its logits, where cache and weights lie on a device"
NEEDS = "cpu"
MINUTES = 2

CALLS = 4


def measure(arguments: list[str]) -> dict:
    import tempfile

    from measure import make, progress, save_graphs
    from strict import sweeps

    rows, program = {}, make("strict_sweeps")
    with tempfile.TemporaryDirectory() as folder:
        for file in save_graphs("llama", folder, small=True):
            row, why = sweeps(program, "state", file, "--calls", CALLS)
            if row is None:
                raise RuntimeError(why)
            if not row["states"]:
                continue
            row["bytes_beyond"] = row["copied_bytes"] / max(row["calls"], 1) - row["caller_bytes"]
            row["passed"] = not row["problem"] and row["calls"] == CALLS and row["bytes_beyond"] == 0
            rows[file.stem] = row
            progress(f"{file.stem}: {row['states']} states of {row['state_bytes']} bytes, {row['caller_bytes']} bytes of token and logits, "
                     f"{row['bytes_beyond']:g} beyond")
    return {"rows": rows, "bytes_beyond": max((row["bytes_beyond"] for row in rows.values()), default=None),
            "passed": bool(rows) and all(row["passed"] for row in rows.values())}
