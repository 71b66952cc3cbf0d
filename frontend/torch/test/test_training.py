# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps: the loss, the gradients and the buffers that a compiled step gives are eager's."""

import copy

import pytest
import torch
import torch.nn.functional as F
import torch_mortise
from agreement import assert_same
from conftest import Small
from torch import nn


def step(model, *arguments):
    """The loss and the gradients of all parameters that are trained, and the model's buffers."""
    loss = model(*arguments)
    trained = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, trained)
    return loss.detach(), *gradients, *[b.clone() for b in model.buffers()]


def check_step(compile_for, model, *arguments, coverage=1.0, **options):
    model.train()
    compiled = compile_for(copy.deepcopy(model), **options)
    found = step(compiled, *arguments)
    assert_same(found, step(copy.deepcopy(model), *arguments), lambda: step(copy.deepcopy(model), *arguments))
    report = torch_mortise.last_report()
    assert report["coverage"] >= coverage, [g["eager"] for g in report["graphs"]]
    assert [g["name"].rsplit("_", 1)[1] for g in report["graphs"]] == ["forward", "backward"]
    return report


def weighted(y):
    """A loss whose gradient differs from element to element. Behind a norm, that of a plain sum would be 0, all of it rounding error."""
    return (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum()


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *arguments):
        return weighted(self.model(*arguments))


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, stride=2, groups=2), nn.GroupNorm(4, 12), nn.SiLU(), nn.Conv2d(12, 12, 1, stride=2),
            nn.AvgPool2d(2, padding=1), nn.ConvTranspose2d(12, 6, 2), nn.AdaptiveAvgPool2d(2),
        )
        self.head = nn.Linear(24, 10)

    def forward(self, x, labels):
        return F.cross_entropy(self.head(self.body(x).flatten(1)), labels, label_smoothing=0.1)


class Language(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 48, **{"dropout": 0.0, "batch_first": True, **options})
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 50)

    def forward(self, ids, labels):
        hidden = self.body(self.tokens(ids) + self.places(torch.arange(ids.shape[1])))
        return F.cross_entropy(self.head(hidden).flatten(0, 1), labels.flatten())


def test_small(compile_for):
    check_step(compile_for, Loss(Small()), torch.randn(5, 8))


def test_convolutional(compile_for):
    check_step(compile_for, Convolutional(), torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,)))


@pytest.mark.parametrize("options", [{"activation": "gelu"}, {"norm_first": True}], ids=str)
def test_transformer(compile_for, options):
    ids, labels = torch.randint(0, 50, (2, 2, 11))
    check_step(compile_for, Language(**options), ids, labels)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_networks_of_transformers(compile_for, name):
    transformers = pytest.importorskip("transformers")
    if name == "bert":
        made = transformers.BertForSequenceClassification(transformers.BertConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=60, hidden_dropout_prob=0,
            attention_probs_dropout_prob=0))
    elif name == "gpt2":
        made = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_layer=2, n_embd=32, n_head=4, vocab_size=60, n_positions=32, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, bos_token_id=None,
            eos_token_id=None))
    else:  # two heads of keys for four of queries
        made = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            num_hidden_layers=2, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, vocab_size=60,
            bos_token_id=None, eos_token_id=None))

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = made

        def forward(self, ids):
            return self.model(input_ids=ids).logits

    check_step(compile_for, Loss(Logits()), torch.randint(0, 60, (2, 12)))


class Attention(nn.Module):
    def __init__(self, heads=4, groups=4, dtype=torch.float32, batch=2, queries=7, keys=9, features=8):
        super().__init__()
        self.q = nn.Parameter(torch.randn(batch, heads, queries, features, dtype=dtype))
        self.k, self.v = (nn.Parameter(torch.randn(batch, groups, keys, features, dtype=dtype)) for _ in range(2))
        self.grouped = heads != groups

    def forward(self, mask=None, causal=False, scale=None):
        return F.scaled_dot_product_attention(self.q, self.k, self.v, mask, is_causal=causal, scale=scale, enable_gqa=self.grouped)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "boolean", "added", "blind", "scaled"])
@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("keys", [9, 130], ids=["parts", "kernel"])
def test_attention(compile_for, dtype, mask, groups, keys):
    """`blind`: a query that sees no key has no weights and no gradient. The cpu plugin computes few keys in parts."""
    attention = Attention(groups=groups, dtype=dtype, keys=keys)
    seen = torch.rand(2, 1, 7, keys) < 0.6
    seen[..., 0] = True
    given = None
    if mask == "boolean" or mask == "blind":
        given = seen
        given[0, 0, 3] &= mask != "blind"
    elif mask == "added":
        given = torch.where(seen, torch.randn(2, 1, 7, keys), -torch.inf).to(dtype)
    options = {"causal": mask == "causal", "scale": 0.7 if mask == "scaled" else None}

    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = attention

        def forward(self, given=None):
            return weighted(self.inner(given, **options))

    check_step(compile_for, Fixed(), *([] if given is None else [given]))
    if mask == "blind":
        attention.zero_grad()
        compile_for(Fixed())(given).backward()
        assert not attention.q.grad[0, :, 3].any() and attention.q.grad[0, :, 2].all()


@pytest.mark.parametrize("trains", [False, True])
def test_who_computes_attention_on_the_cpu(trains):
    """Its scores stay in the cache, forward and backward."""
    torch._dynamo.reset()
    inputs = [torch.randn(1, 2, 100, 16, requires_grad=trains) for _ in range(3)]
    attend = torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), backend="mortise", options={"device": "cpu"})
    result = attend(*inputs)
    if trains:
        result.sum().backward()
    steps = [step["lowering"] for graph in torch_mortise.last_report()["graphs"] for region in graph["program"]["placement"]
             for step in region["steps"]]
    assert steps.count("cpu.attention") == 1 and steps.count("cpu.attention_gradient") == trains, steps
    assert "onednn.matmul" not in steps


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(compile_for, dtype):
    check_step(compile_for, Loss(Small()).to(dtype), torch.randn(5, 8, dtype=dtype))


def test_autocast(compile_for):
    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Small()

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return weighted(self.model(x).float())

    check_step(compile_for, Cast(), torch.randn(5, 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_channels_last(compile_for, dtype):
    """Results, saved tensors and gradients have eager's strides."""
    model = Convolutional().to(dtype, memory_format=torch.channels_last)
    x = torch.randn(3, 3, 24, 20, dtype=dtype).contiguous(memory_format=torch.channels_last)
    check_step(compile_for, model, x, torch.randint(10, (3,)))


def test_dynamic_shapes(compile_for):
    class Model(Small):
        def forward(self, x):
            return (super().forward(x) * torch.linspace(-1, 1, 8)).sum()

    model = Model()
    compiled = compile_for(copy.deepcopy(model), dynamic=True)
    for rows in (5, 9, 3, 5):
        x = torch.randn(rows, 8)
        assert_same(step(compiled, x), step(model, x), lambda: step(model, x))
    graphs = torch_mortise.last_report()["graphs"]
    assert len({g["name"] for g in graphs}) == 2 and torch_mortise.last_report()["coverage"] == 1.0


@pytest.mark.parametrize("make, options", [(torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}), (torch.optim.AdamW, {"lr": 0.01})],
                         ids=["sgd", "adamw"])
def test_weights_change_without_another_compilation(compile_for, make, options):
    model = Small()
    twin, compiled = copy.deepcopy(model), compile_for(model)
    optimisers = [make(one.parameters(), **options) for one in (model, twin)]
    x, target = torch.randn(6, 8), torch.randn(6, 8)
    losses = []
    for _ in range(8):
        pair = []
        for run, optimiser in zip((compiled, twin), optimisers):
            optimiser.zero_grad()
            loss = F.mse_loss(run(x), target)
            loss.backward()
            optimiser.step()
            pair.append(loss.item())
        losses.append(pair)
    for found, wanted in losses:
        assert abs(found - wanted) <= 1e-4 * wanted
    assert losses[-1][0] < 0.9 * losses[0][0]
    graphs = torch_mortise.last_report()["graphs"]
    assert len(graphs) == 2 and all(g["binds"] == 1 for g in graphs)  # of nothing, when they were compiled


@pytest.mark.parametrize("model, x, wide", [
    (nn.Sequential(nn.Linear(8, 96), nn.GELU(), nn.Linear(96, 8)), (40, 8), "f32[40, 96]"),
    (nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 4, 3)), (4, 3, 9, 9), "f32[4, 16, 9, 9]"),
], ids=["gelu", "batch norm and relu"])  # fmt: skip
def test_what_is_cheap_is_computed_again(compile_for, model, x, wide):
    """The backward pass gets what a layer gave, and computes the activation that the next layer read from it."""
    report = check_step(compile_for, Loss(model), torch.randn(x))
    forward = next(g for g in report["graphs"] if g["name"].endswith("_forward"))
    assert [o["type"] for o in forward["programs"][0]["outputs"] if o["alias"] < 0].count(wide) == 1


def test_training_and_inference_of_one_model(compile_for):
    model = Small()
    twin, compiled = copy.deepcopy(model), compile_for(model)
    x = torch.randn(4, 8)
    for _ in range(3):
        for run, one in ((compiled, model), (twin, twin)):
            weighted(run(x)).backward()
            with torch.no_grad():
                for p in one.parameters():
                    p -= 0.01 * p.grad
                    p.grad = None
        with torch.no_grad():
            assert_same(compiled(x), twin(x))
        with torch.inference_mode():
            assert_same(compiled(x), twin(x))
    kinds = [g["name"].rsplit("_", 1)[-1] for g in torch_mortise.last_report()["graphs"]]
    assert kinds.count("forward") == kinds.count("backward") == 1 and len(kinds) >= 3


def test_gradients_accumulate_and_reach_inputs(compile_for):
    model = Small()
    twin, compiled = copy.deepcopy(model), compile_for(model)
    inputs = [torch.randn(4, 8) for _ in range(3)]
    found, wanted = [], []
    for run, one, into in ((compiled, model, found), (twin, twin, wanted)):
        for x in inputs:
            x = x.clone().requires_grad_()
            weighted(run(x)).backward()
            into.append(x.grad)
        into += [p.grad for p in one.parameters()]
    assert_same(found, wanted)


def test_frozen_weights_and_hooks(compile_for):
    model = Small()
    model.first.requires_grad_(False)
    twin, compiled = copy.deepcopy(model), compile_for(model)
    seen = []
    for one in (model, twin):
        one.second.weight.register_hook(lambda gradient: seen.append(gradient) or gradient * 2)
    x = torch.randn(4, 8)
    for run in (compiled, twin):
        weighted(run(x)).backward()
    assert len(seen) == 2 and model.first.weight.grad is None
    assert_same([seen[0], model.second.weight.grad], [seen[1], twin.second.weight.grad])


def test_dropout_of_both_directions(compile_for):
    """The backward pass uses the mask of the forward pass, and the generator's state determines it."""
    def f(x):
        return F.dropout(x, 0.4)

    compiled, x = compile_for(f), torch.ones(64, 50, requires_grad=True)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        y = compiled(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert_same(gradient, y.detach())
        assert 0.35 < float((y == 0).double().mean()) < 0.45
        results.append(y.detach())
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


@pytest.mark.parametrize("trues", [0, 1, 7, 12])
def test_features_of_images_in_text(compile_for, trues):
    """Models of images and text put the images' features where the text has image tokens. More features than places get no gradient."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.text, self.images = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(2, 6))

        def forward(self, mask):
            return weighted(self.text.masked_scatter(mask, self.images * 2))

    mask = torch.zeros(12, dtype=torch.bool)
    mask[torch.randperm(12)[:trues]] = True
    check_step(compile_for, Model(), mask.view(3, 4))


def test_checkpointing(compile_for):
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Small):
        def forward(self, x):
            return weighted(checkpoint(super().forward, x, use_reentrant=False))

    check_step(compile_for, Checkpointed(), torch.randn(4, 8))


def test_custom_function(compile_for):
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x.clamp(-1, 1)

        @staticmethod
        def backward(context, gradient):
            return gradient * 3  # deliberately another gradient than clamp's

    class Model(Small):
        def forward(self, x):
            return weighted(Clipped.apply(super().forward(x)))

    check_step(compile_for, Model(), torch.randn(4, 8))


def test_an_operator_without_handler_is_differentiated_too(compile_for, caplog):
    class Model(Small):
        def forward(self, x):
            return weighted(torch.fft.rfft(super().forward(x)).abs())

    with caplog.at_level("WARNING", "torch_mortise"):
        report = check_step(compile_for, Model(), torch.randn(4, 8), coverage=0.3)
    for graph in report["graphs"]:
        assert 0 < len(graph["eager"]) and graph["coverage"] > 0
    assert any("aten._fft_r2c.default" in r.getMessage() for r in caplog.records)


def test_updates_of_inputs(compile_for):
    class Counting(Small):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(8))

        def forward(self, x):
            y = super().forward(x)
            self.count.add_(y.detach().sum(0))
            return weighted(y)

    check_step(compile_for, Counting(), torch.randn(4, 8))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_autograd(compile_for, device, dynamic):
    """The graph of the whole backward pass, with the accumulation of gradients and a hook in it, is a program, too."""
    model = Small()
    twin, compiled = copy.deepcopy(model), compile_for(model, dynamic=dynamic)
    for one in (model, twin):
        one.second.weight.register_hook(lambda gradient: gradient * 2)

    def train(run, x):
        weighted(run(x)).backward()

    torch._dynamo.utils.counters.clear()
    with torch._dynamo.config.patch(compiled_autograd=True):
        whole = torch.compile(train, backend="mortise", dynamic=dynamic, options={"device": device})
        for rows in (4, 6, 4):
            x = torch.randn(rows if dynamic else 4, 8)
            train(twin, x)
            whole(compiled, x)
            assert_same([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()])
    report = torch_mortise.last_report()
    assert report["coverage"] == 1.0 and torch._dynamo.utils.counters["compiled_autograd"]["captures"] > 0
    assert any(not g["name"].endswith(("forward", "backward")) for g in report["graphs"])


def test_scaled_losses(compile_for):
    """torch.amp.GradScaler: gradients of the scaled loss, a step that is left out after an overflow."""
    model = Small()
    twin = copy.deepcopy(model)
    compiled, scales = compile_for(model), []
    for run, one in ((compiled, model), (twin, twin)):
        scaler, optimiser = torch.amp.GradScaler("cpu", init_scale=2.0**10), torch.optim.SGD(one.parameters(), lr=0.1)
        torch.manual_seed(3)
        for number in range(4):
            optimiser.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = weighted(run(torch.randn(4, 8)).float()) * (torch.inf if number == 2 else 1)
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [2.0**9] * 2
    for found, wanted in zip(model.parameters(), twin.parameters()):
        assert (found - wanted).abs().max() <= 0.02 * wanted.abs().max()


def test_in_place_operators_and_views(compile_for):
    class Model(Small):
        def forward(self, x):
            y = x.clone()
            y[1:, ::2].mul_(3).add_(1)
            z = super().forward(y)
            z.view(-1)[::3] = 0.5
            first, second = z.chunk(2, dim=1)
            return weighted(first.relu() + second.T.contiguous().T.sigmoid_())

    check_step(compile_for, Model(), torch.randn(5, 8))


def test_an_input_that_is_changed_and_needs_a_gradient(compile_for):
    """What a function does to its argument in place reaches the caller, and the gradient of what the argument was made of."""
    def f(x, state):
        state.add_(x.detach().sum(0))
        x.mul_(2).tanh_()
        return (x * state).sum()

    results = []
    for run in (compile_for(f), f):
        leaf, state = torch.linspace(-1, 1, 12).view(3, 4).requires_grad_(), torch.ones(4)
        x = leaf * 3
        loss = run(x, state)
        results.append([loss.detach(), *torch.autograd.grad(loss + x.square().sum(), leaf), x.detach(), state])
    assert_same(*results)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_statistics_of_batch_norm(compile_for, momentum):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(3, momentum=momentum)

        def forward(self, x):
            return weighted(self.norm(x).relu())

    model = Model()
    twin, compiled = copy.deepcopy(model), compile_for(model)
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5) + 2
        found, wanted = [torch.autograd.grad(run(x), list(one.parameters())) for run, one in ((compiled, model), (twin, twin))]
        assert_same([*found, *model.buffers()], [*wanted, *twin.buffers()])
    model.eval(), twin.eval()
    assert_same(compiled(x).detach(), twin(x).detach())
    assert int(model.norm.num_batches_tracked) == 3


@pytest.mark.parametrize("fallback_random", [False, True])
def test_checkpoints_draw_the_same_masks_again(compile_for, fallback_random):
    from torch.utils.checkpoint import checkpoint

    def f(x):
        return checkpoint(lambda v: F.dropout(v.sin(), 0.5), x, use_reentrant=False)

    x = torch.ones(40, 25, requires_grad=True)
    y = compile_for(f, fallback_random=fallback_random)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert fallback_random or {e["op"] for g in torch_mortise.last_report()["graphs"] for e in g["eager"]} == {"mortise.seed.default"}
    kept = y.detach() != 0
    assert 0.4 < float(kept.double().mean()) < 0.6
    assert_same(gradient, torch.where(kept, 2 * x.detach().cos(), 0))


def test_double_backward_is_refused_as_pytorch_does(compile_for):
    """PyTorch 2.11 says it in other words than 2.13."""
    x, refusals = torch.randn(4, requires_grad=True), []
    for compiled in (torch.compile(lambda v: v.exp().sum(), backend="aot_eager"), compile_for(lambda v: v.exp().sum())):
        (gradient,) = torch.autograd.grad(compiled(x), x, create_graph=True)
        assert torch.allclose(gradient, x.exp())
        with pytest.raises(RuntimeError) as raised:
            gradient.sum().backward()
        refusals.append(str(raised.value))
    assert refusals[1] == refusals[0]


def test_autocast_around_a_compiled_model(compile_for):
    """The types of autocast are part of the trace: the same model without it is another graph."""
    model, x = Small().eval(), torch.randn(5, 8)
    compiled = compile_for(model)
    for dtype in (torch.bfloat16, None, torch.float16):
        with torch.no_grad(), torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            found, wanted = compiled(x), model(x)
        assert found.dtype == wanted.dtype and (found - wanted).abs().max() < 0.05
    assert len(torch_mortise.last_report()["graphs"]) == 3
