# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors on a device that PyTorch has, too: torch.device("strict"), whose memory faults when the host touches it, and which finds work
that nothing orders (strict_device/)."""

import concurrent.futures
import copy

import pytest
import strict_device
import torch
from agreement import assert_same
from torch import nn
from torch_mortise import places

STRICT = torch.device("strict", 0)
DELAYED = "delay_us=300 seed=2"


@pytest.fixture(autouse=True)
def no_violations():
    strict_device.configure(DELAYED)
    with torch.no_grad():
        yield
    strict_device.synchronize()
    found = strict_device.report()["violations"]
    strict_device.configure(expects="")
    assert found == []


def compiled(model, dynamic=False, **options):
    return torch.compile(model, backend="mortise", dynamic=dynamic, options={**strict_device.OPTIONS, **options})


def last_report():
    import torch_mortise

    return torch_mortise.last_report()


def on_host(values):
    return [v.cpu() if isinstance(v, torch.Tensor) else v for v in values] if isinstance(values, (tuple, list)) else values.cpu()


def check(function, *inputs, coverage=1.0, device=STRICT, strides=True):
    """Compares a call with the inputs on the device with eager on the CPU."""
    found = compiled(function)(*[i.to(device) for i in inputs])
    expected = function(*inputs)
    assert all(f.device == device for f in (found if isinstance(found, tuple) else [found]))
    assert_same(on_host(found), expected, lambda: function(*inputs), strides=strides)
    assert last_report()["coverage"] >= coverage, [g["eager"] for g in last_report()["graphs"]]
    return found


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return self.head(torch.relu(self.norm(self.convolution(x))).mean((2, 3))) + self.calls


def test_calls_are_queued_and_everything_stays_on_the_device():
    model = Net().eval()
    moved, x = copy.deepcopy(model).to(STRICT), torch.randn(2, 3, 8, 8)
    call, there, results = compiled(moved, device="strict"), x.to(STRICT), []
    strict_device.configure(DELAYED)
    results.append(call(there))
    assert sum(strict_device.report()["copied"].values()) == 0  # the weights are used where they lie
    strict_device.synchronize()
    strict_device.configure(DELAYED)
    for _ in range(3):
        results.append(call(there))
    seen = strict_device.report()
    assert seen["calls"]["enqueue"] == 3
    assert not {"stream_wait", "event_synchronize"} & seen["calls"].keys()
    assert sum(seen["copied"].values()) == 0
    for found in results:
        assert_same(found.cpu(), model(x))
    assert moved.calls.item() == 4
    assert list(last_report()["placement"]) == ["strict:0"]


def test_the_device_of_the_tensors_is_chosen():
    for index, name in ((1, "strict:1"), (0, "strict:0"), (2, "aloof")):
        torch._dynamo.reset()
        check(lambda x: torch.softmax(x, -1) * 2, torch.randn(3, 4), device=torch.device("strict", index))
        assert name in last_report()["placement"]


def test_the_device_is_traced_anew():
    double = compiled(lambda x: x * 2)
    x = torch.randn(5)
    for device in (STRICT, torch.device("strict", 1), torch.device("cpu"), STRICT):
        assert torch.equal(double(x.to(device)).cpu(), x * 2)


def test_copies_between_devices():
    def model(a, b):
        c = (a * 2).to(b.device)
        return c + b, (c * b).cpu() + 1, a.cpu() * 3, b.to(a.device)

    a, b = torch.randn(4, 5), torch.randn(4, 5)
    for one, other in ((1, 2), (0, 1), (2, 0)):
        torch._dynamo.reset()
        one, other = torch.device("strict", one), torch.device("strict", other)
        found = compiled(model)(a.to(one), b.to(other))
        assert [f.device for f in found] == [other, torch.device("cpu"), torch.device("cpu"), one]
        assert_same(on_host(found), (a * 2 + b, a * 2 * b + 1, a * 3, b))
        assert last_report()["coverage"] == 1.0


PAIRS = [(0, 1), (1, 0), (0, 2), (2, 1)]  # 2 is of another kind, between which and the others values pass through the host


def spread(a, b):
    """Work on both devices, values from each to the other, and a result that only one of them computes."""
    c = (torch.relu(a) * 2).to(b.device)
    d = (c + b).to(a.device)
    return c * b, d - a, b + 1, a.to(b.device)


def waits():
    return {slot: n for slot, n in strict_device.report()["calls"].items() if slot in ("stream_wait", "event_synchronize")}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pair", PAIRS)
def test_calls_on_several_devices_are_queued(pair, seed):
    """Each call reads what work that is still queued on both streams writes, and its results are read by such work."""
    one, other = (torch.device("strict", i) for i in pair)
    call, both = compiled(spread), compiled(lambda a, b: (a * 0.5, b - 1))
    a, b = torch.randn(40, 5), torch.randn(40, 5)
    x, y = a.to(one), b.to(other)
    both(x, y), call(x, y)
    strict_device.synchronize()
    strict_device.configure(f"delay_us=300 skew=4 seed={seed}")
    found = []
    for _ in range(4):
        x, y = both(x, y)
        results = call(x, y)
        found.append(both(results[1], results[0]))
        a, b = a * 0.5, b - 1
    assert not waits()
    assert strict_device.report()["calls"]["enqueue"] >= 16
    c, d, *_ = spread(a, b)
    assert_same(on_host(found[-1]), (d * 0.5, c - 1))
    assert_same(on_host(results), spread(a, b))
    assert [r.device for r in results] == [other, one, other, other]


def test_calls_on_several_devices_are_ordered_by_streams_of_the_callers():
    """In streams that are not the default ones, with memory that PyTorch gives to the next call as soon as the last is queued."""
    devices = [torch.device("strict", i) for i in range(2)]
    call, a, b = compiled(spread), torch.randn(6, 5), torch.randn(6, 5)
    x, y = (t.to(d) for t, d in zip((a, b), devices))
    call(x, y)
    streams = [torch.Stream(device=d) for d in devices]
    strict_device.synchronize()
    with streams[0], streams[1]:
        strict_device.configure(DELAYED)
        for _ in range(5):
            found = call(x, y)
        assert strict_device.report()["calls"].get("event_synchronize", 0) == 0
    for stream in streams:
        stream.synchronize()
    assert_same(on_host(found), spread(a, b))


def test_a_result_on_a_second_device_that_is_read_in_another_stream_is_found():
    """The device sees that a result lies behind the second stream alone, so that the tests above can fail."""
    x, y = torch.randn(8).to(STRICT), torch.randn(8).to("strict:1")
    call = compiled(lambda a, b: (a * 2, b * 2 + 1))
    call(x, y)
    stream = torch.Stream(device=torch.device("strict", 1))
    strict_device.synchronize()
    with stream:
        found = call(x, y)
    with pytest.raises(RuntimeError, match="nothing orders them"):
        found[1].cpu()
    strict_device.synchronize()
    strict_device.configure(DELAYED, expects="nothing orders them")


def test_a_copy_between_devices_is_queued():
    """A device on which a call has tensors and no work."""
    x = torch.randn(40, 5)
    call = compiled(lambda a: a.to("strict:1"))
    for device in (0, 2):
        there = x.to(torch.device("strict", device))
        call(there)
        strict_device.synchronize()
        strict_device.configure(DELAYED)
        found = call(there)
        assert not waits()
        copied = strict_device.report()["copied"]
        between = x.nbytes if device == 0 else 0
        assert copied["between"] == between and copied["to_device"] == copied["to_host"] == x.nbytes - between
        assert torch.equal(found.cpu(), x) and found.device.index == 1


def test_host_tensors_beside_those_of_a_device():
    x, scalar = torch.randn(4, 6), torch.tensor(3.0)
    call, there = compiled(lambda a, s: a * s), x.to(STRICT)
    assert_same(call(there, scalar).cpu(), x * scalar)
    strict_device.configure(DELAYED)
    found = call(there, scalar)
    assert strict_device.report()["calls"].get("event_synchronize")  # the scalar is the caller's again
    assert_same(found.cpu(), x * scalar)
    found = compiled(lambda a: (a.to(STRICT) * 2, a + 1))(x)
    assert [f.device.type for f in found] == ["strict", "cpu"]
    assert_same(on_host(found), (x * 2, x + 1))


def test_eager_operators_in_between():
    check(lambda x: torch.fft.fft(torch.relu(x)).real.contiguous() * 2, torch.randn(8), coverage=0.5)
    assert {e["op"] for g in last_report()["graphs"] for e in g["eager"]} >= {"aten._fft_r2c.default"}


@pytest.mark.parametrize("dynamic", [False, True])
def test_only_what_a_plugin_cannot_compile_runs_in_eager(dynamic):
    def model(x):
        return (torch.relu(x) * 2).tanh().exp() + 1

    strict_device.configure("cannot=mortise.tanh")
    call, x = compiled(model, dynamic=dynamic, device="strict,aloof"), torch.randn(4, 6)
    assert_same(call(x.to(STRICT)).cpu(), model(x))
    (eager,) = [e for g in last_report()["graphs"] for e in g["eager"]]
    assert eager["op"] == "aten.tanh.default" and "`cannot` excludes mortise.tanh" in eager["reason"], eager


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_a_plugin_cannot_compile_runs_on_another_device(dynamic):
    def model(x):
        return (torch.relu(x) * 2).tanh().exp() + 1

    strict_device.configure("cannot=mortise.tanh")
    call, x = compiled(model, dynamic=dynamic), torch.randn(4, 6)
    for values in (x, x + 1):
        assert_same(call(values.to(STRICT)).cpu(), model(values))
    report = last_report()
    assert report["coverage"] == 1.0
    regions = [region for graph in report["graphs"] for program in graph["programs"] for region in program["placement"]]
    assert {r["device"] for r in regions if "mortise.tanh" in r["ops"]} == {"cpu"}
    assert {r["device"] for r in regions if "mortise.tanh" not in r["ops"]} == {"strict:0"}


def test_dynamic_shapes():
    model = lambda a, b: torch.softmax(a @ b.t(), -1)[:, :3].contiguous()  # noqa: E731
    call = compiled(model, dynamic=True)
    for n in (4, 7, 9, 4):
        a, b = torch.randn(n, 6), torch.randn(n + 1, 6)
        assert_same(call(a.to(STRICT), b.to(STRICT)).cpu(), model(a, b))
    assert len(last_report()["graphs"]) == 1


def test_views_and_strides():
    base = torch.randn(5, 6)
    model = lambda a: (a.t(), a[1:] + 1, a.t().contiguous(), (a + 1).t())  # noqa: E731
    found = compiled(model)(base.to(STRICT)[1:, 1:])
    expected = model(base[1:, 1:])
    assert_same(on_host(found), expected, strides=False)  # .cpu() gives views strides of its own
    assert [f.stride() for f in found] == [e.stride() for e in expected]


def test_updates_in_place():
    def model(a):
        a.mul_(2)
        return a.sum()

    for part in (slice(None), slice(None, None, 2)):
        torch._dynamo.reset()
        a = torch.randn(4, 6)
        there = a.to(STRICT)
        found, expected = compiled(model)(there[:, part]), model(a[:, part])
        assert_same([found.cpu(), there.cpu()], [expected, a])


class Returning(nn.Module):
    """Returns a weight as it is, a copy of it, a literal, its input and a copy of that."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(100, 4))

    def forward(self, x):
        literal = torch.tensor([1.0, 2.0, 3.0], device=x.device)
        return x @ self.weight.t(), self.weight, self.weight.clone(), literal, x, x.clone()


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_returned_unchanged_stays_on_the_device(dynamic):
    model, x = Returning(), torch.randn(3, 4)
    moved, there = copy.deepcopy(model).to(STRICT), x.to(STRICT)
    call = compiled(moved, dynamic=dynamic, device="strict")
    call(there)
    strict_device.synchronize()
    strict_device.configure(DELAYED)
    found = call(there)
    copied = strict_device.report()["copied"]
    assert copied["to_device"] == copied["to_host"] == copied["between"] == 0, copied
    assert found[1] is moved.weight and found[4] is there  # aliases, as in eager
    assert found[2].data_ptr() != moved.weight.data_ptr()
    assert_same(on_host(found), model(x))
    moved.weight.add_(1)
    assert_same(call(there)[2].cpu(), model.weight + 1)
    assert last_report()["coverage"] == 1.0


def test_weights_that_change_are_bound_again():
    layer, x = nn.Linear(4, 4).to(STRICT), torch.randn(2, 4)
    call, there = compiled(layer), x.to(STRICT)
    for _ in range(3):
        assert_same(call(there).cpu(), nn.functional.linear(x, layer.weight.cpu(), layer.bias.cpu()))
        layer.weight.add_(1)


def test_weights_that_change_while_they_are_bound(monkeypatch):
    """Another thread may write a weight while its binding waits for the device."""
    layer, x = nn.Linear(4, 4, bias=False).to(STRICT), torch.randn(2, 4)
    waits, writes = places.synchronize, [1]

    def synchronize(tensors):
        waits(tensors)
        if writes:
            layer.weight.add_(writes.pop())

    monkeypatch.setattr(places, "synchronize", synchronize)
    call = compiled(layer)
    for _ in range(2):
        assert_same(call(x.to(STRICT)).cpu(), nn.functional.linear(x, layer.weight.cpu()))
    assert not writes


def test_weights_that_are_still_being_written():
    """Binding waits for every stream, because weights may come from any."""
    layer, x = nn.Linear(64, 64, bias=False).to(STRICT), torch.randn(2, 64)
    double = compiled(lambda w: w.mul_(2))
    stream = torch.Stream(device=STRICT)
    before = layer.weight.cpu()
    torch.accelerator.synchronize(STRICT)
    with stream:
        double(layer.weight.detach())
    found = compiled(layer)(x.to(STRICT))
    stream.synchronize()
    assert_same(found.cpu(), nn.functional.linear(x, before * 2))


def test_random_numbers_come_from_the_generator_of_the_device():
    def model(a):
        return torch.rand_like(a), torch.randn(1000, device=a.device), torch.dropout(a, 0.5, True)

    call, x = compiled(model), torch.ones(1000, device=STRICT)
    torch.manual_seed(5)
    host = torch.get_rng_state()
    first = on_host(call(x))
    assert torch.equal(host, torch.get_rng_state())
    second = on_host(call(x))
    torch.manual_seed(5)
    assert all(torch.equal(a, b) for a, b in zip(on_host(call(x)), first))
    assert not any(torch.equal(a, b) for a, b in zip(first, second))
    assert abs(first[0].mean() - 0.5) < 0.05 and abs(first[1].std() - 1) < 0.1 and set(first[2].tolist()) == {0.0, 2.0}


def test_each_device_has_a_generator():
    call = compiled(lambda a, b: (torch.rand_like(a), torch.rand_like(b)))
    a, b = torch.ones(50, device=STRICT), torch.ones(50, device=torch.device("strict", 1))

    def draw(*seeds):
        for device, seed in enumerate(seeds):
            strict_device.manual_seed(device, seed)
        return on_host(call(a, b))

    first = draw(5, 6)
    for seeds, same in (((5, 6), [True, True]), ((5, 7), [True, False]), ((7, 6), [False, True])):
        assert [torch.equal(x, y) for x, y in zip(draw(*seeds), first)] == same, seeds


def test_results_are_counted_by_pytorch():
    call, x = compiled(lambda a: a * 2), torch.randn(1000).to(STRICT)
    call(x)
    before = torch.accelerator.memory_allocated(STRICT)
    found = call(x)
    assert torch.accelerator.memory_allocated(STRICT) == before + found.nbytes
    del found
    assert torch.accelerator.memory_allocated(STRICT) == before


MAKERS = {
    "arange": lambda x: x + torch.arange(6, device=x.device),
    "linspace": lambda x: x + torch.linspace(0, 1, 6, device=x.device),
    "eye": lambda x: x @ torch.eye(6, device=x.device),
    "histc": lambda x: torch.histc(x, 4),
    "bincount": lambda x: torch.bincount(x.long().reshape(-1).abs(), minlength=9),
    "inverse": lambda x: torch.linalg.inv_ex(x).inverse,
    "qr": lambda x: torch.linalg.qr(x).R.abs(),
    "lu": lambda x: torch.linalg.lu_factor_ex(x).LU,
    "cholesky": lambda x: torch.linalg.cholesky_ex(x @ x.t() + 6 * torch.eye(6, device=x.device)).L,
    "adaptive pool": lambda x: nn.functional.adaptive_avg_pool2d(x[None, None], 4),
    "resize": lambda x: nn.functional.interpolate(x[None, None], scale_factor=1.5, mode="bicubic", antialias=True),
    "tensor": lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], device=x.device),
    "index": lambda x: x[torch.tensor([0, 2], device=x.device)],
}


@pytest.mark.parametrize("name", MAKERS)
def test_tensors_that_decompositions_make_lie_on_the_device(name):
    check(MAKERS[name], torch.randn(6, 6), coverage=0.9, strides=False)


NETWORKS = {  # of test_networks.py: the model, its inputs
    "bert": lambda n: (n.small_bert(), [torch.randint(0, 500, (2, 11))]),
    "gpt2": lambda n: (n.small_gpt2(), [torch.randint(0, 300, (2, 9))]),
    "vit": lambda n: (n.small_vit(), [torch.randn(2, 3, 32, 32)]),
    "resnet": lambda n: (n.small_resnet(), [torch.randn(2, 3, 64, 64)]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name):
    test_networks = pytest.importorskip("test_networks")
    model, inputs = NETWORKS[name](test_networks)
    call = compiled(copy.deepcopy(model).to(STRICT), device="strict")
    expected = model(*inputs)[0]
    for _ in range(2):
        found = call(*[i.to(STRICT) for i in inputs])[0]
        assert_same(found.cpu(), expected, lambda: model(*inputs)[0])
    assert last_report()["coverage"] == 1.0


def test_a_cache_stays_on_the_device():
    test_networks = pytest.importorskip("test_networks")
    model = test_networks.small_llama()
    moved, logits = copy.deepcopy(model).to(STRICT), {}
    call = compiled(moved, device="strict")
    prompt = torch.randint(0, 200, (1, 7))
    caches = {run: test_networks.transformers.StaticCache(config=model.config, max_cache_len=16) for run in (model, call)}
    for step in range(5):
        for run, device in ((model, "cpu"), (call, STRICT)):
            ids = (prompt if step == 0 else prompt[:, step - 1 : step]).to(device)
            at = (torch.arange(7) if step == 0 else torch.tensor([6 + step])).to(device)
            if step == 4:
                strict_device.synchronize()
                strict_device.configure(DELAYED)
            logits[run] = run(ids, past_key_values=caches[run], cache_position=at, use_cache=True).logits
        copied = sum(strict_device.report()["copied"].values())
        assert_same(logits[call].cpu(), logits[model])
    assert copied == 0
    assert last_report()["coverage"] == 1.0


def test_a_default_device():
    with torch.device(STRICT):
        found = compiled(lambda a: (a + torch.ones(5), torch.rand(4)))(torch.zeros(5))
        assert [f.device for f in found] == [STRICT, STRICT]
        x = torch.randn(5, device="cpu")  # for tensors elsewhere it says nothing
        found = compiled(lambda a: (torch.relu(a) + 1, torch.rand_like(a), torch.histc(a, 4)))(x)
        assert all(f.device.type == "cpu" for f in found)
        assert torch.equal(found[0], torch.relu(x) + 1)


def test_the_current_stream_orders_a_call():
    x = torch.randn(8)
    there, call = x.to(STRICT), compiled(lambda a: a * 2 + 1)
    call(there)
    stream = torch.Stream(device=STRICT)
    stream.wait_stream(torch.accelerator.current_stream(STRICT))
    with stream:
        found = call(there)
    stream.synchronize()
    assert torch.equal(found.cpu(), x * 2 + 1)


def test_a_result_that_is_read_in_another_stream_is_found():
    """The device sees on which stream a call was queued, so that the tests above can fail."""
    there, call = torch.randn(8).to(STRICT), compiled(lambda a: a * 2 + 1)
    call(there)
    stream = torch.Stream(device=STRICT)
    torch.accelerator.synchronize(STRICT)
    with stream:
        found = call(there)
    with pytest.raises(RuntimeError, match="nothing orders them"):
        found.cpu()
    stream.synchronize()
    strict_device.configure(DELAYED, expects="nothing orders them")


def test_threads_with_streams_of_their_own():
    call = compiled(lambda a, w: torch.relu(a @ w) + 1)
    weight = torch.randn(6, 6)
    there = weight.to(STRICT)
    call(torch.randn(4, 6).to(STRICT), there)
    torch.accelerator.synchronize(STRICT)

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad(), torch.Stream(device=STRICT) as stream:
            for _ in range(5):
                x = torch.randn(4, 6, generator=generator)
                found = call(x.to(STRICT), there)
                stream.synchronize()
                assert torch.allclose(found.cpu(), torch.relu(x @ weight) + 1, atol=1e-5)
            return stream.stream_id

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(work, range(4)))) == 4


def test_tensors_without_elements():
    found = compiled(lambda a: (a + 1, a.sum(), a.reshape(3, 0)))(torch.zeros(0, 3, device=STRICT))
    assert [tuple(f.shape) for f in found] == [(0, 3), (), (3, 0)] and found[1].item() == 0


def test_profiles_and_measured_calls():
    import torch_mortise

    x = torch.randn(4, 6)
    call = compiled(lambda a: torch.relu(a) + 1)
    call(x.to(STRICT))
    with torch_mortise.profiling():
        found = call(x.to(STRICT))
    assert_same(found.cpu(), torch.relu(x) + 1)
    steps = [s for g in last_report()["graphs"] for r in g["program"]["placement"] for s in r["steps"]]
    assert steps and all(s["ns"] > 0 for s in steps)


def test_a_device_that_is_not_installed_runs_in_eager_with_the_reason():
    x = torch.randn(5)
    found = torch.compile(lambda a: torch.relu(a) * 2, backend="mortise", options={"device": "cpu"})(x.to(STRICT))
    assert_same(found.cpu(), torch.relu(x) * 2)
    graph = last_report()["graphs"][0]
    assert graph["coverage"] == 0
    assert {e["reason"] for e in graph["eager"]} == {
        "a tensor on device strict: no installed device has the memory of DLPack's device 12:0"
    }


def test_tensors_without_memory_run_in_eager():
    def model(a):
        return a + 1, torch.zeros(3, 4, device="meta") * 2

    found = compiled(model)(torch.ones(2))
    assert torch.equal(found[0], torch.full((2,), 2.0)) and found[1].device.type == "meta" and found[1].shape == (3, 4)
    assert any("device meta, which has no memory" in e["reason"] for g in last_report()["graphs"] for e in g["eager"])


def test_failures_of_the_device_name_it():
    x = torch.randn(5).to(STRICT)
    call = compiled(lambda a: torch.relu(a) * 2, device="strict")
    call(x)
    torch.accelerator.synchronize(STRICT)
    strict_device.configure("fail=enqueue:1:4")
    with pytest.raises(RuntimeError, match="strict.region on strict:0") as caught:
        call(x)
    assert caught.value.name == "OUT_OF_MEMORY"
    strict_device.configure()
    assert_same(call(x).cpu(), torch.relu(x.cpu()) * 2)
