# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bad options raise errors that name what was expected. Unusual inputs and operators work, in eager if necessary."""

import os
import subprocess
import sys
import threading

import pytest
import torch
import torch_mortise


def compile_and_call(function, *args, **settings):
    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(function, backend="mortise", **settings)(*args)


def message(**settings) -> str:
    with pytest.raises(Exception) as error:
        compile_and_call(lambda x: x + 1, torch.ones(3), **settings)
    return str(error.value)


def test_unknown_device():
    found = message(options={"device": "cpx"})
    assert "cpx" in found and "cpu" in found and "reference" in found


def test_unknown_mode():
    found = message(mode="reduce-overheads")
    assert "reduce-overheads" in found and "reduce-overhead" in found and "max-autotune" in found


def test_unknown_option_names_the_nearest():
    found = message(options={"devise": "cpu"})
    assert "devise" in found and "device" in found


def test_option_of_a_wrong_type():
    assert "device" in message(options={"device": 3.5})


def test_unknown_environment_variable():
    code = ("import torch, torch_mortise\n"
            "torch.compile(lambda x: x + 1, backend='mortise')(torch.ones(2))\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env=dict(os.environ, MORTISE_DEVISE="cpu"))
    assert done.returncode == 1 and "MORTISE_DEVICE" in done.stderr, done.stderr[-2000:]


def test_project_file_may_not_add_plugins(tmp_path):
    (tmp_path / "mortise.toml").write_text('plugin_path = "/tmp"\n')
    done = subprocess.run([sys.executable, "-c", "import torch_mortise; torch_mortise.describe()"], capture_output=True,
                          text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1 and "plugin_path" in done.stderr, done.stderr[-2000:]


def test_requirement_not_met():
    def function(x):
        return torch.linalg.eigvalsh(x @ x.T)

    with pytest.raises(Exception) as error:
        torch.compile(function, backend="mortise", options={"device": "cpu", "require": "100% on cpu"})(torch.rand(4, 4))
    assert "require" in str(error.value) or "100%" in str(error.value)


def test_unsupported_operator_runs_in_eager_and_is_listed():
    def function(x):
        return torch.linalg.eigvalsh(x @ x.T).sum() + 1

    x = torch.rand(5, 5)
    torch.testing.assert_close(compile_and_call(function, x), function(x))
    eager = torch_mortise.last_report()["graphs"][-1]["eager"]
    assert any("eigh" in entry["op"] and entry["reason"] for entry in eager), eager


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("x", [
    torch.arange(24.0).reshape(4, 6).t(),
    torch.arange(48.0).reshape(4, 12)[:, ::2],
    torch.arange(6.0).expand(4, 6),
    torch.arange(24.0)[3:15].reshape(3, 4),
], ids=["transposed", "strided", "expanded", "offset"])
def test_non_contiguous_inputs(device, x):
    def function(x):
        return torch.softmax(x * 2 + 1, -1)

    torch.testing.assert_close(compile_and_call(function, x, options={"device": device}), function(x))


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0), (2, 0, 4)])
def test_zero_sized_inputs(device, shape):
    def function(x):
        return x * 2 + 1, x.sum(-1), torch.cat([x, x], 0)

    x = torch.zeros(shape)
    for found, expected in zip(compile_and_call(function, x, options={"device": device}), function(x), strict=True):
        assert found.shape == expected.shape and found.stride() == expected.stride()
        torch.testing.assert_close(found, expected)


def test_complex_numbers_run_in_eager_with_a_reason():
    """Products are pairs of real numbers, functions are not."""
    x = torch.complex(torch.rand(3), torch.rand(3))
    torch.testing.assert_close(compile_and_call(torch.asin, x), torch.asin(x))
    assert any("complex" in entry["reason"] for entry in torch_mortise.last_report()["graphs"][-1]["eager"])


def test_another_dtype_recompiles_rather_than_misreads():
    compiled = torch.compile(lambda x: x * 3, backend="mortise")
    for dtype in (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool):
        x = torch.ones(5).to(dtype)
        torch.testing.assert_close(compiled(x), x * 3)


def test_many_threads_share_one_compiled_function():
    weight = torch.rand(64, 64)
    compiled = torch.compile(lambda x: torch.relu(x @ weight), backend="mortise")
    x = torch.rand(8, 64)
    expected = compiled(x)
    failures = []

    def work():
        for _ in range(50):
            if not torch.equal(compiled(x), expected):
                failures.append("differs")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
