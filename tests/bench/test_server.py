# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of the figure `server` that depend on torch_mortise and on the build, without the load."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from figures.server import libraries, save
from measure import built


def test_what_the_server_reads_is_written(tmp_path):
    sizes = save(str(tmp_path))
    assert sizes["weights"] > 80e6 and sizes["request"] and sizes["answer"]
    assert {f"{name}.bin": size for name, size in sizes.items()} == {p.name: p.stat().st_size for p in tmp_path.glob("*.bin")}
    assert (tmp_path / "model.mrtg").exists()


def test_the_libraries_of_the_server_are_counted():
    names = [library.name for library in libraries(built("bin/mortise-server-example"))]
    for name in ("mortise-server-example", "libmortise-runtime.so", "libmortise_cpu.so", "libdnnl.so"):
        assert sum(found.startswith(name) for found in names) == 1, names
