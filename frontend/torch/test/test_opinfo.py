# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""OpInfo's samples on the reference interpreter: a slice chosen by a seed, or all of them with MORTISE_TEST_FULL (./dev test --full). To
run one: python -m opinfo --only NAME:DTYPE:INDEX, in this folder with PYTHONPATH=build/dev/python."""

import os
import random
import time

import pytest
from conftest import DEVICES
from opinfo import compiled, runner, samples

FULL = bool(os.environ.get("MORTISE_TEST_FULL"))
SLICE, COMPILED = 400, 40  # samples, operators


def failures(records):
    return [f"{place}: {why}" for record in records for place, why in record["failed"]]


@pytest.mark.skipif(FULL, reason="all samples run")
def test_slice(record_property):
    seed = int(os.environ.get("MORTISE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    record_property("seed", seed)
    print(f"MORTISE_TEST_SEED={seed}")
    started, records, tried = time.perf_counter(), [], 0
    chance = random.Random(seed)
    database = samples.database()
    while tried < SLICE:
        name = chance.choice(sorted(database))
        record = samples.judge_operator(name, database[name], some=chance)
        records.append(record)
        tried += record["passed"] + len(record["failed"])
    seconds = round(time.perf_counter() - started, 1)
    record_property("seconds", seconds)
    print(f"{tried} samples of {len(records)} operators in {seconds} s")
    assert not failures(records), f"MORTISE_TEST_SEED={seed}"


@pytest.mark.skipif("cpu" not in DEVICES, reason="needs the device cpu")
def test_compiled_slice(record_property):
    """The first samples of some operators through torch.compile, with gradients, static and dynamic; `./dev figure opinfo-compiled` tries
    all operators."""
    seed = int(os.environ.get("MORTISE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    record_property("seed", seed)
    names = random.Random(seed).sample(sorted(samples.database()), COMPILED)
    records = list(compiled.judge_all([(name, 1, None) for name in names], 1))
    rows = [row for record in records for row in record["rows"]]
    assert any(outcome == "compiled" for _, outcome, _ in rows)
    assert not [row for row in rows if row[1] == "failed"], f"MORTISE_TEST_SEED={seed}"


@pytest.mark.skipif(not FULL, reason="./dev test --full")
def test_all():
    records = list(runner.judge_all([(name, None, None) for name in samples.database()], 2))
    assert not failures(records)
    result = runner.summary(records)
    assert result["holds"], {k: result[k] for k in ("mapped_excluded_whole", "excluded_share", "by_reason")}
