# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of the cpu plugin's kernels (conformance/mutants, bench/mutants.py): a slice for CI, and what the whole rests on."""

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench")]
import measure
import mutants

OPS = ["add", "exp", "reduce_sum", "softmax"]
CASE = "exp/f32/prime/dense/random/#1"
QUICK = (("core,composite", ("--quick",)),)


@pytest.fixture(scope="module")
def known():
    return mutants.catalogue(11, OPS, levels=QUICK)


def test_without_a_mutant_all_is_well(known):
    assert not known.wrong
    assert sorted(known.kinds) == sorted(OPS)
    assert all(len(known.cases[op]) > 20 for op in OPS)
    families = {mutants.family(op, across) for op, kinds in known.kinds.items() for across, _ in kinds.values()}
    assert families == {"pointwise", "row reduction", "column reduction", "norm"}


def test_a_seed_draws_the_same_mutants(known):
    def first(seed):
        return [(mutant.name, mutant.op) for mutant in itertools.islice(mutants.draw(known, seed), 60)]

    assert first(5) == first(5)
    assert first(5) != first(6)
    assert len(set(first(5))) == 60
    classes = {mutants.OPERATORS[name.rsplit("/", 1)[1]] for name, _ in first(5)}
    assert classes >= {"operator", "constant", "index", "predicate", "loop"}


def test_a_run_that_was_ended_goes_on(known, tmp_path, monkeypatch):
    """It judges what the first one had not, and comes to the same."""
    whole = mutants.run(6, 5, known=known, keep=(kept := tmp_path / "kept"), facts={"sources": "now"}, say=print)
    ended = json.loads(kept.read_text())
    assert ended["seed"] == 5 and ended["sources"] == "now" and whole["taken_over"] == 0
    lost = ended["all"].pop()
    judge, names = mutants.judge, []
    monkeypatch.setattr(mutants, "judge", lambda mutant, *more: names.append(mutant.name) or judge(mutant, *more))
    again = mutants.run(6, 5, known=known, ended=ended, say=print)
    assert names == [f"{lost['kind']}/{lost['site']}"] and again["taken_over"] == len(ended["all"])
    assert (again["mutants"], again["killed"]) == (whole["mutants"], whole["killed"])


def test_kernels_are_the_same_in_every_process(known, tmp_path):
    again = mutants.catalogue(11, ["softmax"], levels=QUICK)
    assert again.kinds["softmax"] == known.kinds["softmax"]


def test_a_mutant_is_the_same_in_every_process(known, tmp_path):
    """As its machine code shows; and it is not the kernel's own."""
    codes = []
    for turn in range(2):
        (folder := tmp_path / str(turn)).mkdir()
        _, logged = mutants.kit(["--case", CASE], known.seed, "none", folder, stops=False)
        kind = logged[0]["kind"]
        site = next(site for site in logged[0]["sites"] if site.endswith("/arithmetic"))
        (changed := folder / "changed").mkdir()
        found, logged = mutants.kit(["--case", CASE], known.seed, f"{kind}/{site}", changed, stops=False)
        assert found[0]["outcome"] != "passed"
        codes.append([(line["equal"], line["code"]) for line in logged])
        assert all(": " in line["stood"] for line in logged)  # the kernel and its instruction
    assert codes[0] == codes[1]
    assert codes[0] and not codes[0][0][0]


def test_another_kind_is_left_alone(known, tmp_path):
    found, logged = mutants.kit(["--case", CASE], known.seed, "0123456789abcdef/1.0/arms", tmp_path, stops=False)
    assert [line["outcome"] for line in found] == ["passed"]
    assert not logged


def test_a_word_that_is_no_mutant(known, tmp_path):
    found, _ = mutants.kit(["--case", CASE], known.seed, "exp/1.0/arms", tmp_path, stops=False)
    assert found[0]["outcome"] == "failed" and "MORTISE_TEST_MUTANT: expected none" in found[0]["why"]


def test_mutants_are_found(known):
    """Twelve, judged by a part of --quick alone, which found seven with AVX-512; other instructions make other mutants."""
    result = mutants.run(12, 3, ops=OPS, levels=QUICK, known=known)
    assert result["mutants"] == 12
    assert result["killed"] >= 5, result["survivors"]
    assert result["killed"] + len(result["survivors"]) == 12
    # A kernel that is compiled for a case which is then refused is changed in no case that passes.
    assert result["unreached"] <= len(result["survivors"]) <= 7
    for mutant in result["all"]:
        assert not mutant["killed"] or any(mutant["by"] in cases for cases in known.cases.values()), "it passes without the mutant"
        assert mutant["killed"] or mutant["equivalent"] or mutant["stillborn"] or mutant["cases"] >= len(known.cases[mutant["op"]])


def test_dead_code_is_equivalent(known):
    """A mutant with the machine code of its kernel, and the claim that it is one, which a killed mutant does not get."""
    # A bf16 is widened by an extension and a shift, which loses what the extension put above it.
    drawn = (mutant for mutant in mutants.draw(known, 1) if mutant.operator == "extension" and mutant.op != "add")
    quick = set(mutants.listed("--quick"))
    judged = (mutants.judge(replace(mutant), known, quick) for mutant in itertools.islice(drawn, 3))
    same = next((mutant for mutant in judged if mutant.equivalent), None)
    assert same and same.compared and not same.killed and same.cases


def test_the_product_has_no_mutator():
    plugins = measure.build_folder() / "lib" / "mortise"
    assert b"MORTISE_TEST_MUTANT" not in (plugins / "plugins" / "libmortise_cpu.so").read_bytes()
    assert b"MORTISE_TEST_MUTANT" in (plugins / "test-plugins" / "libmortise_cpu_mutant.so").read_bytes()
