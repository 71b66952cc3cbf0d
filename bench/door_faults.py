# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults that users of torch.compile(backend="mortise") meet (faults.py). The figure `door-faults` runs all of them; `--page` prints
docs/door-faults.md."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import faults
from faults import COUNTS, SAID, again, cached, data, equal, folder, in_eager, planted, same, says

FAULTS = faults.Faults()
fault = FAULTS.fault


def compiled(model, **options):
    import torch

    more = {key: options.pop(key) for key in ("dynamic", "mode", "fullgraph") if key in options}
    return torch.compile(model, backend="mortise", options={"device": "cpu", **options}, **more)


def small(width: int = 16):
    """A network whose weights are bound."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, width)).eval()


def pocket(**options) -> dict:
    """Options for the plugin that refuses and crashes as it is told, in a process of its own if `isolate` says so."""
    from measure import built

    place = folder()
    for file in ("libpocket.so", "libpocket.toml"):
        shutil.copy(built(f"frontend/capi/test/pocket/{file}"), place)
    return {"plugin_path": f":{place / 'libpocket.so'}", "log_level": "off", **options}


def scale():
    """-(x * weight + x), which the plugin pocket computes."""
    import torch
    from torch import nn

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.full((3, 4), 2.0))

        def forward(self, x):
            return -(x * self.weight + x)

    return Scale()


# ---- operators and graphs -------------------------------------------------------------------------------------


@fault("operators")
def unsupported_operator():
    """An operator that no device has, between two that are compiled."""
    import torch

    def model(x):
        return torch.special.bessel_j0(x * 2) + 1

    same(compiled(model), model, data())
    planted("aten.special_bessel_j0.default" in in_eager(), str(in_eager()))


@fault("operators")
def unsupported_operator_that_is_required():
    """The same under `require`, which forbids eager."""
    import torch

    def model(x):
        return torch.special.bessel_j0(x * 2) + 1

    call = compiled(model, require="100% on cpu")
    says(lambda: call(data()), "required 100% on cpu", "aten.special_bessel_j0")
    planted(True, "the option is the fault")


@fault("operators")
def complex_numbers():
    """A dtype that the language lacks."""
    import torch

    def model(x):
        return torch.view_as_complex(torch.stack([x, x + 1], -1)).abs() * 2

    same(compiled(model), model, data())
    planted(in_eager(), "something runs in eager")


@fault("operators")
def operator_that_raises():
    """An operator of a library raises in the third call."""
    import torch

    calls = []

    @torch.library.custom_op("door_faults::moody", mutates_args=(), schema="(Tensor x) -> Tensor")
    def moody(x):
        calls.append(1)
        if len(calls) == 3:
            raise OverflowError("the moody operator is tired")
        return x.clone()

    moody.register_fake(lambda x: torch.empty_like(x))

    def model(x):
        return moody(x * 2) + 1

    call, x = compiled(model), data()
    with torch.no_grad():
        for number in range(1, 5):
            if number == 3:
                says(lambda: call(x), "the moody operator is tired", kind=OverflowError)
                planted(len(calls) == 3, f"{len(calls)} calls")
            else:
                equal(call(x), x * 2 + 1)


@fault("operators")
def index_out_of_range():
    """An index beyond an embedding's rows, in a compiled program: eager raises."""
    import torch
    from torch import nn

    model = nn.Embedding(10, 4).eval()
    call, good = compiled(model), torch.tensor([1, 9])
    same(call, model, good)
    says(lambda: model(torch.tensor([3, 10])), "out of range")
    planted(True, "eager raises")
    with torch.no_grad():
        says(lambda: call(torch.tensor([3, 10])), "out of range")
    same(call, model, good)


@fault("operators")
def graph_breaks():
    """A print and a branch on data in the middle of a model."""
    import torch

    def model(x):
        x = x * 2
        torch._dynamo.graph_break()
        return x + 1 if x.sum() > 0 else x - 1

    call = compiled(model)
    for sign in (1, -1):
        same(call, model, sign * data().abs())
    planted(torch._dynamo.utils.counters["graph_break"], "Dynamo counts graph breaks")


@fault("operators")
def graph_break_under_fullgraph():
    """The same where the user asked for one graph."""
    import torch

    def model(x):
        torch._dynamo.graph_break()
        return x * 2

    planted(True, "the option is the fault")
    says(lambda: compiled(model, fullgraph=True)(data()), "graph_break")


@fault("operators")
def importer_that_raises():
    """A fault of our own: the handler of an operator raises while a graph is imported."""
    import torch
    from torch_mortise import importer

    def broken(*_, **__):
        raise KeyError("planted")

    importer.HANDLERS[torch.ops.aten.tanh.default] = broken

    def model(x):
        return torch.tanh(x * 2) + 1

    same(compiled(model), model, data())
    planted("planted" in in_eager().get("aten.tanh.default", ""), str(in_eager()))


@fault("operators")
def gradient_of_a_gradient():
    """Double backward through a compiled function, which AOTAutograd does not have."""
    import torch

    def model(x):
        return torch.tanh(x * 2)

    x = data().requires_grad_()
    (first,) = torch.autograd.grad(compiled(model)(x).square().sum(), x, create_graph=True)
    planted(first.requires_grad, "the gradient has a graph")
    says(lambda: torch.autograd.grad(first.sum(), x), "double backward")


# ---- options and the environment ------------------------------------------------------------------------------


@fault("configuration")
def mode_misspelt():
    """mode="max-autotun"."""
    import torch

    planted(True, "the option is the fault")
    says(lambda: torch.compile(small(), backend="mortise", mode="max-autotun")(data()), "expected one of", "max-autotune,", "'max-autotun'")


@fault("configuration")
def option_misspelt():
    """options={"devise": "cpu"}."""
    import torch

    planted(True, "the option is the fault")
    says(lambda: torch.compile(small(), backend="mortise", options={"devise": "cpu"})(data()), "devise", "device")


@fault("configuration")
def option_with_a_wrong_value():
    """specialize_limit="many", kernel_cache_bytes=-1, any_size="perhaps"."""
    planted(True, "the options are the fault")
    for key, value in (("specialize_limit", "many"), ("kernel_cache_bytes", -1), ("any_size", "perhaps"), ("verify", "sometimes")):
        says(lambda key=key, value=value: compiled(small(), **{key: value})(data()), key, "expected", str(value))


@fault("configuration")
def device_that_is_not_there():
    """options={"device": "warp9"}."""
    planted(True, "the option is the fault")
    says(lambda: compiled(small(), device="warp9")(data()), "no device 'warp9'", "nearest", "install")


@fault("configuration")
def environment_variable_unknown():
    """MORTISE_DEVISE=cpu."""
    os.environ["MORTISE_DEVISE"] = "cpu"
    planted(True, "the variable is the fault")
    says(lambda: compiled(small())(data()), "MORTISE_DEVISE", "MORTISE_DEVICE")


@fault("configuration")
def environment_variable_with_a_wrong_value():
    """MORTISE_KERNEL_CACHE_BYTES=much."""
    os.environ["MORTISE_KERNEL_CACHE_BYTES"] = "much"
    planted(True, "the variable is the fault")
    says(lambda: compiled(small())(data()), "MORTISE_KERNEL_CACHE_BYTES", "much")


@fault("configuration")
def project_file_broken():
    """A mortise.toml in the working folder that is no TOML."""
    os.chdir(folder())
    Path("mortise.toml").write_text("device = = cpu\n")
    planted(True, "the file is the fault")
    says(lambda: compiled(small())(data()), "mortise.toml:1", "TOML")


@fault("configuration")
def no_home():
    """No HOME, no XDG_CACHE_HOME: there is no place for compiled kernels."""
    for name in ("HOME", "XDG_CACHE_HOME", "MORTISE_KERNEL_CACHE"):
        os.environ.pop(name, None)
    model = small()
    same(compiled(model), model, data())
    planted(cached() and "hit" not in cached(), str(cached()))


# ---- plugins and compilation ----------------------------------------------------------------------------------


@fault("plugins")
def plugin_absent():
    """No plugin for the device."""
    empty = folder()
    planted(True, "the path is the fault")
    says(lambda: compiled(small(), plugin_path=str(empty))(data()), "no device 'cpu'", "install a plugin")


@fault("plugins")
def extension_missing():
    """The package without libmortise and its extension."""
    import subprocess

    import torch_mortise

    package, place = Path(torch_mortise.__file__).parent, folder()
    shutil.copytree(package, place / "torch_mortise", ignore=shutil.ignore_patterns("_native*", "__pycache__"))
    code = "import torch_mortise; torch_mortise.devices()"
    done = subprocess.run([sys.executable, "-c", code], cwd=place, env=os.environ | {"PYTHONPATH": str(place)}, capture_output=True,
                          text=True, check=False)
    planted(done.returncode == 1, f"it ended with {done.returncode}")
    last = done.stderr.strip().splitlines()[-1]
    for word in ("MortiseError", "expected libmortise", "reinstall"):
        if word not in last:
            raise AssertionError(f"expected {word}, found {last}")
    SAID.append(last)


@fault("plugins", "mortise_plugin_pocket")
def plugin_library_damaged():
    """A plugin's library whose second half is missing; another device is there."""
    options = pocket()
    library = Path(options["plugin_path"][1:])
    library.write_bytes(library.read_bytes()[: library.stat().st_size // 2])
    planted(True, "the file is the fault")
    says(lambda: compiled(scale(), device="pocket", **options)(data(3, 4)), "pocket", "libpocket.so")
    model = small()
    same(compiled(model, **options), model, data())


@fault("plugins", "mortise_plugin_pocket")
def plugin_refuses_what_it_offered():
    """kernel_compile answers "unsupported" for an op that the plugin had offered."""
    model = scale()
    same(compiled(model, device="pocket", **pocket(**{"pocket.fail": "kernel_compile mortise.mul 2"})), model, data(3, 4))
    planted("no room" in in_eager().get("aten.mul.Tensor", ""), str(in_eager()))


@fault("plugins", "mortise_plugin_pocket")
def compilation_fails():
    """kernel_compile fails with an internal error."""
    import torch

    call = compiled(scale(), device="pocket", **pocket(**{"pocket.fail": "kernel_compile mortise.mul 10"}))
    planted(True, "the option is the fault")
    with torch.no_grad():
        for _ in range(2):
            says(lambda: call(data(3, 4)), "no room for mortise.mul")


@fault("plugins", "mortise_plugin_pocket", "mortise-worker")
def compilation_crashes():
    """A plugin in a process of its own aborts in kernel_compile."""
    model = scale()
    same(compiled(model, device="pocket", **pocket(isolate="pocket", **{"pocket.fail": "kernel_compile mortise.mul abort"})), model,
         data(3, 4))
    planted("SIGABRT" in in_eager().get("aten.mul.Tensor", ""), str(in_eager()))


@fault("plugins", "mortise_plugin_pocket", "mortise-worker")
def compilation_never_ends():
    """A plugin in a process of its own hangs in kernel_compile, with one second allowed."""
    model = scale()
    options = pocket(isolate="pocket", isolate_seconds=1, **{"pocket.fail": "kernel_compile mortise.mul hang"})
    began = time.monotonic()
    same(compiled(model, device="pocket", **options), model, data(3, 4))
    planted("no answer within 1 s" in in_eager().get("aten.mul.Tensor", ""), str(in_eager()))
    if time.monotonic() - began > 60:
        raise AssertionError("it took more than a minute")


@fault("plugins", "mortise_plugin_pocket", "mortise-worker")
def plugin_killed():
    """The process of a plugin is killed between two calls."""
    model, x = scale(), data(3, 4)
    call = compiled(model, device="pocket", **pocket(isolate="pocket"))
    same(call, model, x)
    workers = children("mortise-worker")
    planted(workers, "a worker runs")
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    for _ in range(3):
        same(call, model, x)


@fault("plugins", "mortise_plugin_pocket", "mortise-worker")
def plugin_crashes_in_a_call():
    """A plugin in a process of its own aborts while it runs a kernel."""
    model = scale()
    call = compiled(model, device="pocket", **pocket(isolate="pocket", **{"pocket.fail": "enqueue mortise.mul abort"}))
    for _ in range(2):
        same(call, model, data(3, 4))
    planted("SIGABRT in enqueue" in in_eager().get("aten.mul.Tensor", ""), str(in_eager()))


@fault("plugins", "mortise_plugin_saboteur")
def plugin_computes_wrongly():
    """A plugin whose means are wrong, under verify = "first"."""
    import torch
    import torch_mortise
    from measure import built

    library = built("lib/mortise/test-plugins/libsaboteur.so")

    def model(x):
        return (x * 2).mean(1) + 1

    options = {"device": "saboteur", "plugin_path": f":{library}", "saboteur.fault": "mean-by-one-less"}
    with torch.no_grad():
        wrong = compiled(model, **options)(data())
    planted(not torch.allclose(wrong, model(data()), atol=1e-3), "without verify the result is wrong")
    again()
    call = compiled(model, **options, verify="first")
    for seed in (1, 2):
        same(call, model, data(seed=seed))
    if not any("verify" in note for graph in torch_mortise.last_report()["graphs"] for note in graph["notes"]):
        raise AssertionError("expected a note of the mismatch in last_report()")


def children(name: str) -> list[int]:
    """The processes of this name below this one."""
    found, below = [], {os.getpid()}
    for entry in sorted(int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) in below:
                below.add(entry)
                if name in Path(f"/proc/{entry}/cmdline").read_text():
                    found.append(entry)
    return found


# ---- kernels on disk ------------------------------------------------------------------------------------------


def filled_cache(model, x) -> Path:
    place = folder() / "kernels"
    os.environ["MORTISE_KERNEL_CACHE"] = str(place)
    same(compiled(model), model, x)
    planted(list(place.glob("*.kernel")), "a kernel was kept")
    again()
    return place


@fault("kernel cache")
def cache_damaged():
    """A bit of each file on disk is flipped."""
    model, x = small(), data()
    for file in filled_cache(model, x).glob("*.kernel"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    same(compiled(model), model, x)
    planted(any("damaged" in state for state in cached()), str(cached()))


@fault("kernel cache")
def cache_unreadable():
    """Folders in place of the files on disk (the superuser reads what nobody may)."""
    model, x = small(), data()
    for file in filled_cache(model, x).glob("*.kernel"):
        file.unlink()
        file.mkdir()
    same(compiled(model), model, x)
    planted("hit" not in cached(), str(cached()))


@fault("kernel cache")
def cache_removed():
    """The folder is removed while the process runs."""
    model, x = small(), data()
    shutil.rmtree(filled_cache(model, x))
    same(compiled(model), model, x)
    planted("hit" not in cached(), str(cached()))


@fault("kernel cache")
def cache_of_others():
    """A folder that everybody may write to."""
    place, model = folder() / "kernels", small()
    place.mkdir()
    place.chmod(0o777)
    os.environ["MORTISE_KERNEL_CACHE"] = str(place)
    same(compiled(model), model, data())
    planted(any("other users" in state for state in cached()) and not list(place.iterdir()), str(cached()))


@fault("kernel cache")
def disk_full():
    """No file may grow beyond 100 bytes, which stands for a full disk."""
    place, model = folder() / "kernels", small()
    os.environ["MORTISE_KERNEL_CACHE"] = str(place)
    call = compiled(model)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    try:
        same(call, model, data())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    planted("hit" not in cached() and not list(place.glob("*")), str(cached()))


# ---- weights --------------------------------------------------------------------------------------------------


@fault("weights")
def weights_changed_in_place():
    """weight.mul_(2) between two calls."""
    import torch

    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    before = call(x)
    with torch.no_grad():
        model[0].weight.mul_(2)
    planted(not torch.equal(model(x), before), "eager's result changed")
    same(call, model, x)


@fault("weights")
def weights_replaced():
    """The tensor behind a parameter is freed and another takes its place, again and again."""
    import torch

    model, x = small(), data()
    call = compiled(model)
    for seed in range(20):
        same(call, model, x)
        model[0].weight.data = data(32, 16, seed=seed)
    planted(torch.equal(model[0].weight, data(32, 16, seed=19)), "the last one is in place")
    same(call, model, x)


@fault("weights")
def weights_written_unseen():
    """weight.data.mul_(2), which changes neither address nor version, without torch_mortise.refresh."""
    import torch

    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    before, version = model(x), model[0].weight._version
    model[0].weight.data.mul_(2)
    planted(not torch.equal(model(x), before) and model[0].weight._version == version, "a change without a version")
    same(call, model, x)


@fault("weights")
def weights_written_and_refreshed():
    """The same with torch_mortise.refresh(model)."""
    import torch
    import torch_mortise

    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    before = model(x)
    model[0].weight.data.mul_(2)
    planted(not torch.equal(model(x), before), "eager's result changed")
    torch_mortise.refresh(model)
    same(call, model, x)


@fault("weights")
def weights_without_memory():
    """The memory of a weight is given back: untyped_storage().resize_(0), as FSDP does."""
    import torch

    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    weight = model[0].weight
    kept = weight.detach().clone()
    weight.untyped_storage().resize_(0)
    planted(weight.untyped_storage().nbytes() == 0, "no memory is left")
    with torch.no_grad():
        says(lambda: call(x), "expected", "memory")
    weight.untyped_storage().resize_(kept.nbytes)
    weight.data.copy_(kept)
    same(call, model, x)


@fault("weights")
def weights_resized():
    """A layer gets more inputs, and the others do not."""
    from torch import nn

    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    model[0].weight = nn.Parameter(data(32, 20))
    planted(True, "the shapes do not fit")
    says(lambda: model(x), "shapes")
    says(lambda: call(x), "20")
    same(call, model, data(8, 20))


@fault("weights")
def weights_of_another_dtype():
    """model.double() after the first call, and with inputs of the old dtype."""
    import torch

    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    model.double()
    planted(model[0].weight.dtype is torch.float64, "the weights are f64")
    says(lambda: call(x), "dtype")
    same(call, model, x.double())
    model.float()
    same(call, model, x)


@fault("weights")
def weights_moved_away():
    """model.to("meta") after the first call: no weight has memory."""
    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    model.to("meta")
    planted(model[0].weight.is_meta, "the weights are on meta")
    says(lambda: call(x), "meta")


# ---- inputs ---------------------------------------------------------------------------------------------------


@fault("inputs")
def input_without_memory():
    """An input whose memory was given back."""
    import torch

    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    x.untyped_storage().resize_(0)
    planted(x.untyped_storage().nbytes() == 0, "no memory is left")
    with torch.no_grad():
        says(lambda: call(x), "expected", "memory")
    same(call, model, data())


@fault("inputs")
def input_on_another_device():
    """A tensor on meta, for a model in host memory."""
    model = small()
    call = compiled(model)
    same(call, model, data())
    planted(True, "the input is the fault")
    says(lambda: call(data().to("meta")), "meta")
    same(call, model, data())


@fault("inputs")
def input_not_aligned():
    """f32 at an odd address."""
    import torch

    model = small()
    x = torch.frombuffer(bytearray(8 * 16 * 4 + 1), dtype=torch.float32, offset=1).view(8, 16).copy_(data())
    call = compiled(model)
    same(call, model, data())
    planted(x.data_ptr() % 4, "the address is odd")
    same(call, model, x)


@fault("inputs")
def input_that_overlaps_itself():
    """An expanded tensor, and one whose rows overlap."""
    model, base = small(), data(200)
    call = compiled(model)
    same(call, model, data())
    rows = base.as_strided((8, 16), (3, 1))
    planted(rows.stride() == (3, 1), "rows overlap")
    same(call, model, rows)
    same(call, model, data(1, 16).expand(8, 16))


@fault("inputs")
def inputs_that_are_one_tensor():
    """The output of an in-place operator and its input are the same memory."""

    def model(x, y):
        x.mul_(2)
        return x + y

    call = compiled(model)
    first, second = data(), data()
    equal(call(first, data(seed=2)), model(second, data(seed=2)))
    planted(True, "the aliases are the fault")
    equal(call(first, first), model(second, second))
    equal(first, second)


@fault("inputs")
def numbers_that_are_none():
    """NaN and infinities among the inputs."""
    import torch

    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    x[1, 2], x[3, 4], x[5, 6] = float("nan"), float("inf"), float("-inf")
    planted(not x.isfinite().all(), "some are not finite")
    with torch.no_grad():
        found, expected = call(x), model(x)
    if not torch.equal(found.isnan(), expected.isnan()):
        raise AssertionError("NaN stands elsewhere")
    equal(found.nan_to_num(), expected.nan_to_num())


@fault("inputs")
def input_of_inference_mode():
    """Tensors that were made under torch.inference_mode, in and outside of it, one of them a state that is updated."""
    import torch

    def model(x, state):
        state.add_(x)
        return x * state

    call, x = compiled(model), data()
    with torch.inference_mode():
        first, second = data(seed=2), data(seed=2)
        planted(first.is_inference(), "an inference tensor")
        for _ in range(2):
            equal(call(x, first), model(x, second))
    equal(first.clone(), second.clone())
    network = small()
    with torch.inference_mode():
        made = data()
    same(compiled(network), network, made)


# ---- training -------------------------------------------------------------------------------------------------


@fault("training")
def requires_grad_toggled():
    """Weights are frozen and thawed, and the grad mode changes between calls."""

    model, x = small(), data()
    call = compiled(model)

    def gradients(function):
        model.zero_grad()
        function(x).square().sum().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    for frozen in (False, True, False):
        model[0].weight.requires_grad_(not frozen)
        found = gradients(call)
        expected = gradients(model)
        planted(len(found) == 6 - frozen, f"{len(found)} gradients")
        equal(found, expected)
        same(call, model, x)


@fault("training")
def hook_raises():
    """A hook of a tensor raises in backward; a hook of a module raises in forward."""
    import torch

    model, x = small(), data()
    call = compiled(model)
    rage = []

    @torch._dynamo.disable
    def angry(*_):
        if rage:
            raise LookupError("the hook is angry")

    call(x).sum().backward()
    y = call(x)
    y.register_hook(angry)
    rage.append(1)
    says(lambda: y.sum().backward(), "the hook is angry", kind=LookupError)
    planted(True, "it was raised")
    model.zero_grad()
    call(x).square().sum().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    equal(found, [p.grad for p in model.parameters()])
    rage.clear()
    again()  # Dynamo sees the hooks that a module has in its first call, and does not tell equal modules apart by theirs
    hooked = small()
    hooked.register_forward_hook(angry)
    call = compiled(hooked)
    same(call, hooked, x, grad=True)
    rage.append(1)
    says(lambda: call(x), "the hook is angry")
    rage.clear()
    same(call, hooked, x, grad=True)


@fault("training")
def weight_changed_before_backward():
    """An in-place update of a saved weight between forward and backward."""
    import torch

    model, x = small(), data().requires_grad_()
    call = compiled(model)
    call(x).sum().backward()
    y = call(x)
    with torch.no_grad():
        model[3].weight.mul_(2)
    planted(True, "the weight changed")
    says(lambda: y.sum().backward(), "modified by an inplace operation")


# ---- processes and threads ------------------------------------------------------------------------------------


@fault("processes")
def threads():
    """Eight threads make the first call at once, and go on calling with two shapes."""
    model = small()
    call = compiled(model)
    inputs = [data(8 + number % 2, 16, seed=number) for number in range(8)]
    failures = []

    def work(x):
        try:
            for _ in range(20):
                same(call, model, x)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")

    running = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for thread in running:
        thread.start()
    planted(sum(thread.is_alive() for thread in running) > 1, "several threads run")
    for thread in running:
        thread.join()
    if failures:
        raise AssertionError(failures[0])


@fault("processes")
def fork_after_compile():
    """A child is forked after a call, and calls."""
    model, x = small(), data()
    call = compiled(model)
    same(call, model, x)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                same(call, model, x)
                text = "right"
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writer, text.encode()[:4000])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    planted(os.waitpid(child, 0)[1] == 0, "the child ended by itself")
    if text != "right":
        if not all(word in text for word in ("MortiseError", "fork")):
            raise AssertionError(f"expected a right answer or an error about the fork, found {text}")
        SAID.append(text[:300])
    same(call, model, x)


@fault("processes")
def interrupted_while_compiling():
    """Ctrl-C while the first call compiles, at twenty moments."""
    model, x = small(), data()
    same(compiled(model), model, x)  # all is loaded now, so that the next compilations take short and equal times
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start jobs in the background without one
    interrupted = 0
    for number in range(20):
        again()
        call = compiled(model)
        signal.setitimer(signal.ITIMER_REAL, 0.01 * (number + 1))
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        try:
            same(call, model, x)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupted += 1
        same(call, model, x)
    planted(interrupted >= 5, f"{interrupted} compilations were interrupted")


@fault("processes")
def killed_while_compiling():
    """A process is killed while it compiles and writes kernels; the next one reads what it left."""
    import subprocess

    place = folder() / "kernels"
    environment = os.environ | {"MORTISE_KERNEL_CACHE": str(place)}
    code = "import door_faults as d\nm = d.small()\nd.same(d.compiled(m), m, d.data())\nprint('done')"
    ended = []
    for seconds in (2.5, 4, 5.5):
        with subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=Path(__file__).parent, stdout=subprocess.PIPE) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.kill()
            ended.append(process.wait())
    planted(-signal.SIGKILL in ended, str(ended))
    os.environ["MORTISE_KERNEL_CACHE"] = str(place)
    model = small()
    same(compiled(model), model, data())


@fault("processes")
def exit_after_the_first_call():
    """The interpreter ends while weights may still be packed, and a function that was compiled is called at exit."""
    import subprocess

    code = ("import atexit, door_faults as d, torch\nm, x = d.small(2048), d.data(8, 2048)\nc = d.compiled(m)\n"
            "atexit.register(lambda: (d.same(c, m, x), print('called at exit')))\nd.same(c, m, x)\n"
            "other = d.compiled(d.small(2047))\nwith torch.no_grad(): other(d.data(8, 2047))")
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        planted("called at exit" in done.stdout, done.stderr[-300:])
        if done.returncode:
            raise AssertionError(f"it ended with {done.returncode}: {done.stderr[-300:]}")
        COUNTS["compared"] += 1


@fault("processes")
def no_memory():
    """A result of 2 GiB where the process may have 1 GiB more."""
    import torch

    def model(x):
        return (x + 1).expand(1 << 29).contiguous() * 2 if x.shape[0] == 1 else x * 3

    call = compiled(model)
    same(call, model, data(4))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))
    try:
        with torch.no_grad():
            says(lambda: model(data(1)), "memory")
            planted(True, "eager has no memory")
            says(lambda: call(data(1)), "memory")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    same(call, model, data(4))


@fault("processes")
def no_more_files():
    """No file can be opened when the model is compiled."""
    place, model = folder() / "kernels", small()
    os.environ["MORTISE_KERNEL_CACHE"] = str(place)
    same(compiled(small()), model, data())  # PyTorch has imported what it imports late
    again()
    shutil.rmtree(place, ignore_errors=True)
    call = compiled(model)
    most = max(int(p) for p in os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
    try:
        with contextlib.suppress(OSError):
            open("/dev/null").close()
            raise AssertionError("a file could be opened")
        planted(True, "no file can be opened")
        same(call, model, data())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    same(call, model, data())


@fault("processes")
def memory_limit_of_a_device():
    """memory_limit leaves the device reference 1 KiB."""
    model = small()
    call = compiled(model, device="reference,cpu", memory_limit="reference=1024")
    same(call, model, data())
    planted(True, "the option is the fault")


def page() -> str:
    groups: dict[str, list[faults.Fault]] = {}
    for one in FAULTS.values():
        groups.setdefault(one.group, []).append(one)
    lines = ["# What happens when something is wrong", "",
             "Faults that `./dev figure door-faults` plants, each in a process of its own, under models that are compiled with",
             '`backend="mortise"`. Each has to end in a right answer or in an error that says what was expected, what was found or',
             "what to do.",
             "This page is printed by `bench/door_faults.py --page`.", ""]
    for group, members in groups.items():
        lines += [f"## {group.capitalize()}", "", "| fault | what is wrong |", "|---|---|"]
        lines += [f"| `{one.name}` | {one.words} |" for one in members]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "--page":
        print(page())
    else:
        sys.exit(faults.main(FAULTS, sys.argv[1]))
