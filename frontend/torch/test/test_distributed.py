# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two processes over gloo: collectives in graphs, DDP, FSDP2 and DTensor give what eager gives, and collectives keep their order."""

import contextlib
import copy
import os
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.nn.functional as F
import torch_mortise
from agreement import assert_same, flat
from ranks import Ranks, on_ranks
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch_mortise import graph, region, report
from torch_mortise.errors import UNSUPPORTED, MortiseError, Refusal

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(scope="module")
def ranks():
    ranks = Ranks()
    yield ranks
    ranks.close()


def compiled(function, **options):
    return torch.compile(function, backend="mortise", options={"device": "cpu"}, **options)


def check_report(*kinds):
    """Checks that graphs of these kinds were compiled, and that only what is meant to ran in eager. Returns the report."""
    found = torch_mortise.last_report()
    left = [entry for each in found["graphs"] for entry in each["eager"] if not entry["by_design"]]
    assert found["graphs"] and not left, left
    assert {each["name"].partition("_")[2].partition("_")[2] for each in found["graphs"]} == set(kinds)
    return found


def last_graph():
    return report._recent[-1]()


# ---- collectives in graphs ------------------------------------------------------------------------------------------


def gather(x):
    return functional.all_gather_tensor(x.sin(), 0, dist.group.WORLD).cos(), functional.all_gather_tensor(x.sin(), 1, dist.group.WORLD)


def reduce_scatter(x):
    sums = functional.reduce_scatter_tensor(x.sin(), "sum", 1, dist.group.WORLD)
    return sums.cos(), functional.reduce_scatter_tensor(functional.all_gather_tensor(x, 0, dist.group.WORLD), "max", 0, dist.group.WORLD)


def all_to_all(x):
    return functional.all_to_all_single(torch.cat([x, x.sin()]), None, None, dist.group.WORLD).cos()


def reduce_and_broadcast(x):
    return functional.all_reduce(x.sin(), "sum", dist.group.WORLD) * 2, functional.broadcast(x.cos(), 1, dist.group.WORLD) + 1


def several_at_once(x):
    sums = functional.all_reduce_coalesced([x.sin(), x.sum(1)], "sum", dist.group.WORLD)
    return [total.cos() for total in sums]


def written_to(x):
    """torch.distributed's own functions, which write into their arguments."""
    total, gathered, part = x.sin(), x.new_empty(2 * x.shape[0], x.shape[1]), torch.empty_like(x)
    dist.all_reduce(total)
    dist.all_gather_into_tensor(gathered, total)
    dist.reduce_scatter_tensor(part, gathered)
    return total.cos(), gathered + 1, part * 2


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [gather, reduce_scatter, all_to_all, reduce_and_broadcast, several_at_once, written_to])
@on_ranks
def test_collectives(rank, function, dynamic):
    run = compiled(function, fullgraph=True, dynamic=dynamic)
    for rows in (4, 6, 10) if dynamic else (4,):
        x = torch.randn(rows, 6) + rank
        assert_same(flat(run(x)), [t + 0 for t in flat(function(x))])
    found = check_report("")
    assert not any(each["notes"] for each in found["graphs"]), [each["notes"] for each in found["graphs"]]
    assert not any(each["recompiled"] for each in found["graphs"])


@on_ranks
def test_a_requirement_is_about_what_could_be_compiled(rank):
    run = torch.compile(gather, backend="mortise", options={"device": "cpu", "require": "100% on cpu"})
    x = torch.randn(4, 6) + rank
    assert_same(run(x), [t + 0 for t in gather(x)])
    assert 0 < check_report("")["coverage"] < 1


@on_ranks
def test_gradients_of_collectives(rank):
    def loss(x):
        gathered = functional.all_gather_tensor_autograd(x.sin(), 0, dist.group.WORLD)
        parts = functional.reduce_scatter_tensor_autograd(gathered * gathered, "sum", 0, dist.group.WORLD)
        return (parts.cos() * torch.linspace(-1, 1, 6)).sum()

    x = (torch.randn(4, 6) + rank).requires_grad_()
    assert_same(torch.autograd.grad(compiled(loss)(x), x), torch.autograd.grad(loss(x), x))
    check_report("forward", "backward")


@on_ranks
def test_an_argument_is_reduced_in_place(rank):
    def double(x):
        dist.all_reduce(x)
        return x * 2

    x = torch.randn(4, 6) + rank
    y = x.clone()
    assert_same(compiled(double)(x), double(y))
    assert_same(x, y)


@on_ranks
def test_what_is_being_sent_is_not_overwritten(rank):
    """The program that updates the buffer may run while its old contents are gathered."""

    class Gathers(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("sent", torch.full((1 << 20,), rank + 1.0))

        def forward(self, x):
            gathered = functional.all_gather_tensor(self.sent, 0, dist.group.WORLD)
            self.sent.add_(x.sum())
            return gathered[::1000] + x[0]

    model = Gathers()
    run = compiled(model)
    with torch.no_grad():
        for _ in range(20):
            before, x = model.sent.clone(), torch.randn(16)
            both = [torch.empty_like(before) for _ in range(2)]
            dist.all_gather(both, before)
            assert_same(run(x), torch.cat(both)[::1000] + x[0])
            assert_same(model.sent, before + x.sum())
    names = {number: [node.name for node in nodes] for number, nodes in last_graph().partition.segments.items()}
    assert list(names.values())[0] == ["all_gather_into_tensor"] and "add" in list(names.values())[1], names


# ---- the order of work ------------------------------------------------------------------------------------------------


def two_collectives(x, first, second):
    total = functional.all_reduce(x @ first, "sum", dist.group.WORLD)
    gathered = functional.all_gather_tensor(((x @ second).relu() @ second).sin(), 0, dist.group.WORLD)
    alone = (x @ first @ second).cos()
    return total + 1, gathered * 2, alone


@on_ranks
def test_work_runs_between_start_and_wait(rank):
    matrices = [torch.randn(8, 8) for _ in range(3)]
    assert_same(compiled(two_collectives)(*matrices), [t + 0 for t in two_collectives(*matrices)])
    segments = [[node.name for node in nodes] for _, nodes in sorted(last_graph().partition.segments.items())]
    place = {name: number for number, names in enumerate(segments) for name in names}
    assert segments[0] == ["mm"], "only what the first collective needs runs before it"
    order = ["mm", "all_reduce", "sin", "all_gather_into_tensor", "cos", "wait_tensor", "add", "wait_tensor_1", "mul"]
    assert [place[name] for name in order] == sorted(place[name] for name in order), segments
    assert place["all_gather_into_tensor"] < place["cos"] < place["wait_tensor"] < place["add"] < place["wait_tensor_1"], segments


@on_ranks
def test_ranks_agree_on_the_order_when_their_programs_differ(rank):
    """One rank has no program for what comes before the first collective, so that its graph falls apart elsewhere."""
    matrices = [torch.randn(8, 8) for _ in range(3)]
    handlers = {torch.ops.aten.mm.default, torch.ops.aten.relu.default} if rank else set()
    kept = {overload: handler for overload, handler in graph.HANDLERS.items() if overload not in handlers}
    with mock.patch.object(graph, "HANDLERS", kept):
        found = compiled(two_collectives)(*matrices)
    assert_same(found, [t + 0 for t in two_collectives(*matrices)])
    started = [node.name for _, nodes in sorted(last_graph().partition.segments.items()) for node in nodes if node.name.startswith("all_")]
    assert started == ["all_reduce", "all_gather_into_tensor"]
    assert bool(rank) == any(not entry["by_design"] for entry in torch_mortise.last_report()["graphs"][0]["eager"])


@on_ranks
def test_a_call_that_fails_behind_a_collective_is_not_repeated(rank):
    """To repeat it would run the collective once more on this rank only."""
    run, call, failed = compiled(gather), region.Region.call, []

    def fails_once(self, arguments, key, profile):
        if self.name.endswith("_1") and not failed:
            failed.append(self.nodes[0].name)
            raise MortiseError(UNSUPPORTED, "withdrawn", [Refusal(0, "", failed[0], "cpu", "cpu", "OTHER", "withdrawn")])
        return call(self, arguments, key, profile)

    x = torch.randn(4, 6) + rank
    with mock.patch.object(region.Region, "call", fails_once), pytest.raises(MortiseError, match="withdrawn"):
        run(x)
    assert_same(run(x), [t + 0 for t in gather(x)])
    left = [entry["node"] for each in torch_mortise.last_report()["graphs"] for entry in each["eager"] if not entry["by_design"]]
    assert left == failed


@on_ranks
def test_verify(rank):
    """"first" compares the same calls on all ranks. Shares would not, and leave the graph out."""
    x = torch.randn(4, 6) + rank
    for share, noted in (("first", False), (0.5, True)):
        torch._dynamo.reset()
        run = torch.compile(gather, backend="mortise", options={"device": "cpu", "verify": share})
        for _ in range(6):
            assert_same(run(x), [t + 0 for t in gather(x)])
        assert any("verify leaves this graph out" in note for note in last_graph().notes) == noted


# ---- DDP ----------------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.LayerNorm(width)

    def forward(self, x):
        return x + self.norm(self.down(F.gelu(self.up(x))))


class Blocks(nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def batch(seed, width=32, rows=8):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def loss_of(model, x):
    return (model(x) * torch.linspace(-1, 1, x.shape[-1])).square().mean()


def full(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def train(model, parameters, rank, width=32, steps=3, backward=contextlib.nullcontext):
    """The losses and the parameters after some steps."""
    optimizer, losses = torch.optim.SGD(parameters, 0.1, momentum=0.9), []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch(2 * step + rank, width))
        with backward():
            loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *map(full, parameters)]


@pytest.mark.parametrize("how", [True, False, "python_reducer"], ids=["buckets", "whole", "python_reducer"])
@on_ranks
def test_ddp(rank, how):
    """`buckets`: Dynamo compiles a forward and a backward graph for each of DDP's buckets."""
    width = 256 if how is True else 32
    model = Blocks(width, 3)
    expected = DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=1)
    expected = train(expected, list(expected.parameters()), rank, width)
    with torch._dynamo.config.patch(optimize_ddp=how):
        found = DistributedDataParallel(model, bucket_cap_mb=1)
        assert_same(train(compiled(found), list(model.parameters()), rank, width), expected)
    made = check_report("forward", "backward")
    assert made["coverage"] == 1 and len(made["graphs"]) == (6 if how is True else 2)
    for parameter in model.parameters():  # to the last bit
        both = [torch.empty_like(parameter) for _ in range(2)]
        dist.all_gather(both, parameter.detach())
        assert torch.equal(*both)


@on_ranks
def test_ddp_with_batches_that_differ_between_ranks(rank):
    """Each rank traces for the sizes that it meets."""

    def losses(model, run):
        optimizer, found = torch.optim.SGD(model.parameters(), 0.1), []
        for rows in (8, 6, 5, 1):
            optimizer.zero_grad()
            found.append(loss_of(run, batch(rank, rows=rows + 2 * rank)))
            found[-1].backward()
            optimizer.step()
        return [loss.detach() for loss in found]

    model = Blocks()
    expected, found = (DistributedDataParallel(m) for m in (copy.deepcopy(model), model))
    assert_same(losses(found, compiled(found)), losses(expected, expected))
    check_report("forward", "backward")


@on_ranks
def test_ddp_around_a_compiled_module(rank):
    model = Blocks()
    expected = DistributedDataParallel(copy.deepcopy(model))
    expected = train(expected, list(expected.parameters()), rank)
    assert_same(train(DistributedDataParallel(compiled(model)), list(model.parameters()), rank), expected)
    check_report("forward", "backward")


@on_ranks
def test_gradients_accumulate_without_sync(rank):
    def accumulate(model, run):
        gradients = []
        for step, context in enumerate((model.no_sync, model.no_sync, contextlib.nullcontext)):
            with context():
                loss_of(run, batch(2 * step + rank)).backward()
            gradients += [p.grad.clone() for p in model.parameters()]
        return gradients

    model = Blocks()
    expected, found = (DistributedDataParallel(m) for m in (copy.deepcopy(model), model))
    gradients = accumulate(found, compiled(found))
    assert_same(gradients, accumulate(expected, expected))
    count = len(list(model.parameters()))
    for number, gradient in enumerate(gradients):
        both = [torch.empty_like(gradient) for _ in range(2)]
        dist.all_gather(both, gradient)
        assert torch.equal(*both) == (number >= 2 * count), number
    check_report("forward", "backward")


@on_ranks
def test_compiled_autograd(rank):
    """With compiled autograd DDP's collectives are part of the backward graph."""
    model = Blocks()
    expected = DistributedDataParallel(copy.deepcopy(model))
    expected = train(expected, list(expected.parameters()), rank)
    with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
        found = DistributedDataParallel(model)
        run = compiled(found, fullgraph=True)

        def backward():
            return torch._dynamo.compiled_autograd._enable(compiled)

        assert_same(train(run, list(model.parameters()), rank, backward=backward), expected)
    collectives = [e["op"] for each in check_report("forward", "backward", "")["graphs"] for e in each["eager"]]
    assert collectives.count("_c10d_functional.all_reduce.default") == len(list(model.parameters()))


# ---- FSDP2 ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["regional", "whole"])
@on_ranks
def test_fsdp(rank, how):
    def sharded(model, regional):
        for block in model.blocks:
            if regional:
                block.compile(backend="mortise", options={"device": "cpu"})
            fully_shard(block)
        return fully_shard(model)

    model = Blocks()
    expected = sharded(copy.deepcopy(model), False)
    expected = train(expected, list(expected.parameters()), rank)
    found = sharded(model, how == "regional")
    assert_same(train(found if how == "regional" else compiled(found), list(found.parameters()), rank), expected)
    made = check_report("forward", "backward")
    assert made["coverage"] == 1 and len(made["graphs"]) == 4  # the first block's input needs no gradient, those of the others do


@on_ranks
def test_gathered_parameters_are_no_constants(rank):
    """FSDP gathers them for each call, into memory whose address and version may be the last call's."""
    block = Block(32)
    plain = copy.deepcopy(block)
    fully_shard(block, reshard_after_forward=True)
    block.compile(backend="mortise", options={"device": "cpu"})
    with torch.no_grad():
        for step in range(4):
            x = batch(step)
            assert_same(block(x), plain(x))
            for sharded, whole in zip(block.parameters(), plain.parameters(), strict=True):
                whole[-1:] *= 1.5
                sharded.copy_(distribute_tensor(whole.detach(), sharded.device_mesh, sharded.placements))
    (only,) = check_report("")["graphs"]
    assert not last_graph().constants and only["binds"] <= 1


# ---- DTensor --------------------------------------------------------------------------------------------------------------


def parallel(model, mesh):
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


@on_ranks
def test_tensor_parallel(rank):
    mesh, model = init_device_mesh("cpu", (2,)), Blocks()
    expected = parallel(copy.deepcopy(model), mesh)
    expected = train(expected, list(expected.parameters()), 0)
    found = parallel(model, mesh)
    assert_same(train(compiled(found), list(found.parameters()), 0), expected)
    check_report("forward", "backward")


@on_ranks
def test_tensor_parallel_inference_sees_changed_weights(rank):
    mesh, model = init_device_mesh("cpu", (2,)), Blocks()
    plain, found = copy.deepcopy(model), parallel(model, mesh)
    run = compiled(found, dynamic=True)
    with torch.no_grad():
        for rows in (8, 5, 3):
            x = batch(rows, rows=rows)
            assert_same(run(x), plain(x))
            for sharded, whole in zip(found.parameters(), plain.parameters(), strict=True):
                whole *= 1.25
                sharded *= 1.25
    check_report("")


@on_ranks
def test_sequence_parallel(rank):
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(32)

        def forward(self, x):
            inner = self.block
            return x + inner.norm(inner.down(F.gelu(inner.up(x)))).redistribute(placements=[Replicate()]).to_local()

    mesh, model = init_device_mesh("cpu", (2,)), Normed()
    plan = {
        "up": ColwiseParallel(),
        "down": RowwiseParallel(output_layouts=Shard(0), use_local_output=False),
        "norm": SequenceParallel(sequence_dim=0, use_local_output=False),
    }

    def sharded(model):
        parallelize_module(model.block, mesh, plan)
        return model

    expected = sharded(copy.deepcopy(model))
    expected = train(expected, list(expected.parameters()), 0)
    found = sharded(model)
    assert_same(train(compiled(found), list(found.parameters()), 0), expected)
    check_report("forward", "backward")


@on_ranks
def test_redistribution(rank):
    mesh = init_device_mesh("cpu", (2,))
    rows, whole = distribute_tensor(torch.randn(8, 16), mesh, [Shard(0)]), distribute_tensor(torch.randn(16, 6), mesh, [Replicate()])

    def columns(rows, whole):
        product = (rows @ whole).relu().redistribute(placements=[Shard(1)])
        return product.to_local().cos(), product.sum(0).redistribute(placements=[Replicate()]).to_local()

    assert_same(compiled(columns, fullgraph=True)(rows, whole), [t + 0 for t in columns(rows, whole)], strides=False)
    check_report("")


# ---- faults -----------------------------------------------------------------------------------------------------------------


def summed(x):
    return functional.all_reduce(x.sin(), "sum", dist.group.WORLD).cos()


@on_ranks
def dies(rank):
    run, x = compiled(summed), torch.randn(4)
    run(x)
    if rank == 1:
        os._exit(7)
    run(x)


@on_ranks
def differ(rank):
    compiled(summed)(torch.randn(4 + 4 * rank)) + 0


def answers(name, **environment):
    ranks = Ranks(**environment)
    try:
        return ranks.run(__name__, name, {})
    finally:
        ranks.stop()


def test_a_rank_that_ends_is_an_error_on_the_other():
    first, second = answers("dies")
    assert "RuntimeError" in first and "by peer" in first, first
    assert second == "the process ended with 7"


def test_shapes_that_differ_between_ranks():
    """Gloo ends the process; PyTorch's own check (TORCH_DISTRIBUTED_DEBUG=DETAIL) makes it an error that says what differs."""
    for answer in answers("differ", TORCH_DISTRIBUTED_DEBUG="DETAIL"):
        assert "RuntimeError" in answer and "mismatch between collectives" in answer, answer
    assert any("the process ended with -6" in answer for answer in answers("differ"))
