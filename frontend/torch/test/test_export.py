# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""OpInfo's samples and NNSmith's models as files for mortise-conformance."""

import importlib.util
import itertools
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from opinfo import export, generated, judge, samples

BUILD = Path(importlib.util.find_spec("torch_mortise").origin).absolute().parents[2]
KIT = BUILD / "bin" / "mortise-conformance"
REFERENCE = BUILD / "lib" / "mortise" / "plugins" / "libmortise_reference.so"
NNSMITH = os.environ.get("MORTISE_TEST_NNSMITH")  # the folder in which it is installed


def outcomes(folder, status):
    """{name: outcome} of the reference plugin on the graphs of a folder."""
    command = [KIT, "--plugin", REFERENCE, "--graph", folder, "--report", folder / "out", "--jobs", "2"]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert ran.returncode == status, ran.stdout + ran.stderr
    lines = json.loads((folder / "out" / "report.json").read_text())["cases"]
    return {Path(line["case"].removesuffix("/#1")).stem: line["outcome"] for line in lines}


def one(tmp_path, function, *tensors, strict=True):
    """The record of one call, named call."""
    record = export.empty_record()
    sample = SimpleNamespace(input=tensors[0], args=tensors[1:], kwargs={})
    export.export(record, SimpleNamespace(name="call", op=function), sample, "call", tmp_path, samples.Memory(), strict)
    return record


def test_samples(tmp_path):
    names = [("add", "float32", None), ("softmax", "bfloat16", None), ("randn_like", "float32", None), ("sort", "int32", None),
             ("as_strided", "float64", None), ("add", "bool", None)]
    record = export.export_all(names, 2, tmp_path, 2)
    assert not record["failed"] and not record["differing"]
    written = {path.stem for path in tmp_path.glob("*.mrtg")}
    assert len(written) == sum(record["written"].values()) >= 12
    assert {path.stem for path in tmp_path.glob("*.inputs")} == written
    known = {path.stem for path in tmp_path.glob("*.expected")}
    assert len(known) == record["written"]["expected"] and {name for name in written if "randn" in name}.isdisjoint(known)
    assert set(outcomes(tmp_path, 0).values()) == {"passed"}
    (tmp_path / "add-float32-0.expected").write_bytes(bytes((tmp_path / "add-float32-0.expected").stat().st_size))
    wrong = outcomes(tmp_path, 1)
    assert [name for name, outcome in wrong.items() if outcome == "failed"] == ["add-float32-0"]


@pytest.mark.parametrize("dtype", samples.DTYPES, ids=str)
def test_bytes_of_inputs(dtype, tmp_path):
    """In row-major order, whatever the strides."""
    x = torch.arange(6).reshape(2, 3).to(dtype).t()
    assert not one(tmp_path, torch.clone, x)["failed"]
    held = (tmp_path / "call.inputs").read_bytes()
    assert held == x.contiguous().view(torch.uint8).numpy().tobytes() and len(held) == 6 * dtype.itemsize


def test_expected_results(tmp_path):
    x = torch.tensor([1.0, 2.0])
    assert one(tmp_path, lambda x: [x * 3, x.long()], x)["written"] == {"expected": 1}
    expected = numpy.fromfile(tmp_path / "call.expected", numpy.float64)[:4]
    assert expected.tolist() == [3, 6, 2 * 2**-22, 2 * 2**-21]  # 2 ULP
    assert numpy.fromfile(tmp_path / "call.expected", numpy.int64)[4:].tolist() == [1, 2]


def test_bounds_of_coarse_results():
    eager, exact = torch.tensor([1.0, torch.inf, 2.0]), torch.tensor([1.001, 5.0, 2.0], dtype=torch.float64)
    target, bounds = export.near_exact(eager, exact, None)
    assert target.tolist() == judge.rounded(exact, torch.float32).tolist()
    assert 0.001 < bounds[0] < 0.0011 * 2 and bounds[1] == torch.inf and 0 < bounds[2] < 0.0025
    assert [part.numel() for part in export.near_exact(torch.empty(0), torch.empty(0, dtype=torch.float64), None)] == [0, 0]


def test_what_differs_has_no_expected_results(tmp_path):
    def changing():
        steps = itertools.chain([0], itertools.repeat(100))  # as it is traced, and as eager calls it
        return lambda x: x + next(steps)

    record = one(tmp_path, changing(), torch.ones(3))
    assert len(record["failed"]) == 1 and not record["written"]
    record = one(tmp_path, changing(), torch.ones(3), strict=False)
    assert len(record["differing"]) == 1 and record["written"] == {"inputs": 1}
    assert not (tmp_path / "call.expected").exists() and outcomes(tmp_path, 0) == {"call": "passed"}


def test_files_are_written_again(tmp_path):
    for size in (3, 4):
        one(tmp_path, torch.exp, torch.ones(size))
        assert (tmp_path / "call.inputs").stat().st_size == 4 * size
        assert outcomes(tmp_path, 0) == {"call": "passed"}


def test_a_model_runs_without_its_own_forward():
    model = torch.nn.Module()
    model.layer = torch.nn.Linear(2, 2)
    model.instructions = [(model.layer, ["x"], ["y"], None), (lambda y, x: [y + x, y - x], ["y", "x"], ["sum", "difference"], None)]
    model.output_map = {"difference": None, "sum": None}
    x = torch.ones(1, 2)
    y = model.layer(x)
    found = generated.Net(model)({"x": x})
    assert torch.equal(found[0], y - x) and torch.equal(found[1], y + x)


@pytest.mark.skipif(not NNSMITH, reason="MORTISE_TEST_NNSMITH names no folder with NNSmith")
def test_generated_models(tmp_path):
    generator, record = generated.Generator(NNSMITH, 6), export.empty_record()
    for seed in range(8):
        export.export(record, *generator.sample(seed), f"nnsmith-{seed}", tmp_path, samples.Memory(), strict=False)
    assert not record["failed"] and record["written"]["expected"] > 4
    assert set(outcomes(tmp_path, 0).values()) == {"passed"}
    again = samples.computed(*generator.sample(3), set(), samples.Memory())
    assert b"".join(map(export.raw, again.inputs)) == (tmp_path / "nnsmith-3.inputs").read_bytes()  # by seed alone
