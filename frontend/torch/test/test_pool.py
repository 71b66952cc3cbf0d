# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pool of results: memory is reused only when nobody holds it, and results behave like those of PyTorch's allocator."""

import copy
import gc
import io
import os
import subprocess
import sys
import threading

import pytest
import torch
from agreement import assert_same

import torch_mortise
from torch_mortise.pool import SMALLEST, UNUSED, Pool
from torch_mortise.pool import pool as shared

SHAPE, BYTES, LIMIT = (1024, 512), 1024 * 512 * 4, 1 << 28
assert BYTES >= SMALLEST


def make(pool, limit=LIMIT, shape=SHAPE):
    return pool.empty(4 * shape[0] * shape[1], limit, shape, (shape[1], 1), torch.float32)


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture(autouse=True)
def empty_pool():
    torch_mortise.release_memory()
    yield
    torch_mortise.release_memory()


def test_memory_is_used_again(pool):
    first = make(pool)
    address = first.data_ptr()
    assert make(pool).data_ptr() != address
    del first
    again = [make(pool) for _ in range(2)]
    assert address in [t.data_ptr() for t in again]
    assert again[0].data_ptr() != again[1].data_ptr()
    assert again[0].data_ptr() % 64 == 0 and again[0].is_contiguous() and not again[0]._is_view()
    assert pool.report()["output_pool_blocks"] == pool.report()["output_pool_misses"] == 2


# Ways to keep a result's memory alive without the result.
HOLDERS = {
    "view": lambda t: t[3:5],
    "transpose": lambda t: t.t(),
    "detached": lambda t: t.detach(),
    "storage": lambda t: t.untyped_storage(),
    "typed storage": lambda t: torch.storage.TypedStorage(wrap_storage=t.untyped_storage(), dtype=t.dtype, _internal=True),
    "numpy": lambda t: t.numpy(),
    "numpy view": lambda t: t.numpy()[::2],
    "memoryview": lambda t: memoryview(t.numpy()),
    "dlpack": lambda t: torch.utils.dlpack.to_dlpack(t),
    "parameter": lambda t: torch.nn.Parameter(t),
    "list": lambda t: [t],
    "set_": lambda t: torch.empty(0).set_(t.untyped_storage(), 7, (3,), (1,)),
    "split": lambda t: t.split(512),
    "saved for backward": lambda t: torch.ones(SHAPE, requires_grad=True).mul(t),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_held_is_not_used_again(pool, name):
    result = make(pool)
    address = result.data_ptr()
    held = HOLDERS[name](result)
    del result
    gc.collect()
    others = [make(pool) for _ in range(4)]
    assert address not in [t.data_ptr() for t in others], name
    del held
    gc.collect()
    assert address in [t.data_ptr() for t in [make(pool) for _ in range(4)]], name


def test_results_resize_share_and_pickle_as_others(pool):
    result, plain = make(pool).fill_(2), torch.full(SHAPE, 2.0)
    for t in (result, plain):
        assert t.untyped_storage().resizable() and t.untyped_storage().nbytes() == BYTES
        assert t.storage_offset() == 0
    saved = [io.BytesIO(), io.BytesIO()]
    for t, file in zip((result, plain), saved):
        torch.save(t, file)
        assert_same(torch.load(io.BytesIO(file.getvalue())), plain)
    assert len(saved[0].getvalue()) == len(saved[1].getvalue())
    assert_same(copy.deepcopy(result), plain)
    result.resize_(2048, 1024)
    assert result.untyped_storage().nbytes() == 4 * BYTES and bool((result.flatten()[: plain.numel()] == 2).all())
    del result
    assert all(make(pool).untyped_storage().nbytes() == BYTES for _ in range(3))
    shared_result = make(pool).fill_(3).share_memory_()
    assert shared_result.is_shared() and bool((shared_result == 3).all())
    del shared_result
    others = [make(pool) for _ in range(4)]
    assert not any(t.is_shared() for t in others)


def test_in_place_writes_stay_in_their_result(pool):
    results = [make(pool).fill_(i) for i in range(5)]
    results[2].mul_(10).add_(1)
    del results[0]
    results.append(make(pool).fill_(9))
    assert [float(r.mean()) for r in results] == [1, 21, 3, 4, 9]


def test_no_more_than_the_limit_is_kept(pool):
    kept = [make(pool, limit=3 * BYTES) for _ in range(10)]
    assert pool.report()["output_pool_bytes"] == 3 * BYTES and pool.report()["output_pool_idle_bytes"] == 0
    del kept
    assert pool.report()["output_pool_idle_bytes"] == 3 * BYTES
    make(pool, limit=BYTES)
    assert pool.report()["output_pool_bytes"] == BYTES
    assert pool.release() == BYTES and pool.report()["output_pool_bytes"] == 0


def test_memory_pressure_empties_the_pool():
    available = [100 * BYTES]
    pool = Pool(lambda: available[0])
    held = [make(pool) for _ in range(8)]
    assert pool.report()["output_pool_blocks"] == 8
    available[0] = 8 * BYTES
    for _ in range(40):
        make(pool)
    assert pool.report()["output_pool_blocks"] <= 2
    available[0] = 0
    for _ in range(40):
        make(pool)
    assert pool.report()["output_pool_bytes"] == 0 and len(held) == 8
    make(Pool(lambda: None))  # a system that does not report its memory


def test_what_is_not_asked_for_again_goes(pool):
    make(pool, shape=(2048, 512))
    assert pool.report()["output_pool_blocks"] == 1
    for _ in range(UNUSED + 1):
        make(pool)
    assert pool.report()["output_pool_bytes"] == BYTES


def test_threads_never_share_a_block(pool):
    wrong = []

    def work(number):
        held = []
        for step in range(150):
            mine = make(pool).fill_(number * 1000 + step)
            held.append((mine, number * 1000 + step))
            if len(held) > number + 1:
                held.pop(0)
            wrong.extend(v for t, v in held if not bool((t == v).all()))
            if step % 50 == 49:
                pool.release()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong
    assert pool.bytes == sum(b.bytes for b in pool.blocks.values())


def test_a_forked_child_has_a_pool_of_its_own():
    kept = make(shared)
    with shared.lock:  # as another thread might hold it
        child = os.fork()
        if child == 0:
            done = shared.report()["output_pool_blocks"] == 0 and make(shared).shape == SHAPE
            os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0 and kept.shape == SHAPE


# ---- through the door -----------------------------------------------------------------------------------


def test_calls_use_the_pool(compile_for):
    def f(x):
        return x * 2 + 1

    x = torch.randn(SHAPE)
    compiled = compile_for(f)
    with torch.no_grad():
        before = shared.hits
        held = [compiled(x + i) for i in range(3)]
        for i in range(3):
            assert_same(held[i], f(x + i))
        del held
        addresses = set()
        for i in range(8):
            with torch.inference_mode(i % 2 == 1):
                y = compiled(x + i)
                assert_same(y, f(x + i))
                assert y.is_inference() == (i % 2 == 1)
                addresses.add(y.data_ptr())
        assert len(addresses) <= 3 and shared.hits >= before + 8
        memory = torch_mortise.last_report()["memory"]
        assert memory["output_pool_bytes"] == 3 * BYTES and memory["output_pool_idle_bytes"] == 2 * BYTES
        assert torch_mortise.release_memory() == 2 * BYTES
        assert_same(y, f(x + 7))


def test_values_between_programs_are_given_back_within_a_call(compile_for):
    """A graph whose programs alternate with operators in eager keeps a value until the last of them has read it."""

    def f(x):
        kept = x + 1
        for _ in range(6):
            x = torch.special.bessel_j0(x * 2).cos()
        return x, kept

    compiled, x = compile_for(f), torch.rand(512, 1024)
    with torch.no_grad():
        assert_same(compiled(x), f(x))
    blocks = torch_mortise.last_report()["memory"]["output_pool_blocks"]
    assert blocks <= 4, blocks


def test_small_results_and_switched_off_pools_use_the_allocator(compile_for):
    with torch.no_grad():
        compile_for(lambda x: x + 1)(torch.randn(16, 16))
        compile_for(lambda x: x + 2, output_pool_bytes=0)(torch.randn(SHAPE))
        compile_for(lambda x: x + 3, output_pool_bytes=BYTES - 1)(torch.randn(SHAPE))
    assert torch_mortise.last_report()["memory"]["output_pool_blocks"] == 0


def test_strides_and_dynamic_shapes(compile_for):
    def f(x):
        return (x + 1).transpose(0, 1).contiguous().transpose(0, 1), x.to(torch.float64)

    compiled = compile_for(f, dynamic=True)
    with torch.no_grad():
        for rows in (1024, 2048, 1024, 1500):
            x = torch.randn(rows, 512)
            assert_same(compiled(x), f(x))


def test_bad_values_are_refused(device):
    with pytest.raises(Exception, match="expected a number of bytes"):
        torch.compile(lambda x: x + 1, backend="mortise", options={"device": device, "output_pool_bytes": "lots"})(torch.ones(2))
    with pytest.raises(Exception, match="output_pool_bytes"):
        torch.compile(lambda x: x + 1, backend="mortise", options={"device": device, "output_pool_byte": 1})(torch.ones(2))


def test_the_process_ends_with_blocks_in_use():
    # No thread is still inside PyTorch when the interpreter ends, because that aborts without a pool too.
    code = """
import atexit, threading, torch, torch_mortise
from torch_mortise.pool import pool
def make():
    return pool.empty(1 << 22, 1 << 28, (1024, 1024), (1024, 1), torch.float32)
class Late:
    def __del__(self):
        self.made = make()
def work():
    held = make()
    ready.set()
    threading.Event().wait()
ready = threading.Event()
threading.Thread(target=work, daemon=True).start()
assert ready.wait(60)
kept, late = [make() for _ in range(8)], Late()
atexit.register(make)
print(len(kept))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0 and done.stdout.strip() == "8", done.stderr
