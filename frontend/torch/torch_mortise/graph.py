# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One FX graph from AOTAutograd: which nodes become programs, which run in eager and why, and the call."""

import concurrent.futures
import functools
import logging
import math
import operator
import re
import threading
import time

import torch
import torch.fx
from torch.autograd import profiler

from . import (
    _library,
    collectives,
    complex_pairs,
    control_flow,
    donation,
    fallback,
    progress,
    repeats,
    report,
    sizes,
    subgraphs,
    values,
)
from .errors import INTERNAL, UNSUPPORTED, MortiseError
from .extents import NeedsNumbers
from .importer import HANDLERS, by_design, vendor
from .layout import memory_of
from .partition import Partition, is_operator, is_tensor
from .region import NoProgram, Region, roles
from .region_import import NodeUnsupported
from .symbols import Key, needed_symbols, of_data, readable
from .threads import binder, compiler, tell_failure
from .verify import Verifier, draws, draws_within

log = logging.getLogger("torch_mortise")
aten = torch.ops.aten


class CompiledGraph:
    """What became of a graph. `entry()` is what PyTorch calls."""

    def __init__(self, module, name, static_inputs, own, donated=()):
        """`own`: the Options (options.py). `donated`: positions of arguments that a call may overwrite (donation.py)."""
        self.module, self.name, self.own, self.options = module, name, own, own.session
        self.notes = []  # of the whole graph; regions have their own
        subgraphs.inline(module)
        complex_pairs.rewrite(module)
        nodes = self.nodes = list(module.graph.nodes)
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        output = next(n for n in nodes if n.op == "output").args[0]
        self.outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        self.attributes = {n: getattr_path(module, n.target) for n in nodes if n.op == "get_attr"}
        for node, tensor in self.attributes.items():
            node.meta.setdefault("val", tensor)
        values.give_values(nodes)
        self.bodies = control_flow.bodies(module.graph, self.compile_body)
        self.mutations = {n: (n.args[0], n.args[1]) for n in nodes if n.target is aten.copy_.default and n.args[0].op == "placeholder"}
        mutated = {target for target, _ in self.mutations.values()}
        self.constants = {self.placeholders[i] for i in static_inputs if i < len(self.placeholders)} - mutated
        self.constants = {n for n in self.constants if isinstance(n.meta.get("val"), torch.Tensor)}
        self.donated = donation.worthwhile(self.placeholders, donated) - mutated
        self.of_data = of_data(nodes)
        # The nodes that programs or eager compute, in order.
        self.computed = dict.fromkeys(
            n for n in nodes if n.op == "call_function" and n not in self.mutations and (is_tensor(n) or n in self.of_data)
        )
        repeat = own.repeat_layers and not self.of_data  # each use of such a symbol reads a tensor of its own layer
        self.runs = repeats.find(list(self.computed), roles(self.constants, self.attributes, mutated)) if repeat else []
        # Nodes of further copies of equal layers -> the node that stands for each.
        self.models = repeats.models(list(self.computed), self.runs)
        self.surveyed = [n for n in nodes if n not in self.models]
        sizes.settle(self.surveyed)
        self.key = Key(self.placeholders, needed_symbols(self.surveyed, self.outputs))
        self.givers = {}  # symbol that depends on data -> a tensor that eager computes, with a dimension of this size
        self.reasons = {}  # node -> why it runs in eager; "" for what is not listed (is_operator)
        self.lock = threading.RLock()
        leaves_out = own.verify and draws_within(module)
        if leaves_out:
            self.note("verify leaves this graph out: eager would draw other random numbers")
        self.has_collectives = any(collectives.starts(node.target) for node in self.computed)
        if self.has_collectives and 0 < own.verify < 1:
            self.note("verify leaves this graph out: ranks would compare different calls, and to compare is to run collectives again")
            leaves_out = True
        self.verifier = Verifier(0.0 if leaves_out else own.verify)
        self.find_reasons()
        self.recompiled = sizes.recompile_reason()
        self.pending = None  # the compilation, while another thread is at it and calls run in eager
        self.compile_first()
        self.wall_s = 0.0  # of the backend's call, measured by the code that makes the graph

    def compile_body(self, module, name):
        """The entry of a graph that an operator of this one calls. The option verify compares the results of this one."""
        graph = CompiledGraph(module, f"{self.name}_{name}", (), self.own._replace(verify=0.0))
        report.compiled(graph)
        return graph.entry()

    @functools.cached_property
    def sources(self):
        """{node: the nodes that it reads}"""
        return {n: n.all_input_nodes for n in self.nodes}

    # ---- what runs where ------------------------------------------------------------------------

    def find_reasons(self):
        handled = {}
        refused = {}  # node -> why programs do not support the kind of its value
        for node in self.surveyed:
            refused[node] = values.refusal(values.taken_results(node), self.options)
            if node not in self.computed:
                if node.op == "call_module" or node.op == "call_method":
                    self.reasons[node] = f"{node.op} is not expected in an aten graph"
                continue
            target = node.target
            known = handled.get(id(target))  # an operator's own hash is computed in Python
            if known is None:
                known = target in HANDLERS or target is operator.getitem or vendor.refusal(target, self.options) == ""
                handled[id(target)] = known
            sources = node.all_input_nodes
            depends = self.depends_on_data(node) if self.of_data else None
            unsupported = [refused[node], *(refused[self.models.get(n, n)] for n in sources)]
            if known and not depends and not any(unsupported):
                continue
            lacking = None if known else self.unknown_reason(node)
            if reason := depends or lacking or next(filter(None, unsupported), None):
                self.reasons[node] = reason if is_operator(node) else ""
            if node in self.reasons or sources and target is operator.getitem and sources[0] in self.reasons:
                for symbol in readable([node.meta.get("val")]) if node in self.of_data and is_tensor(node) else ():
                    self.givers.setdefault(symbol, node)
        if self.reasons:
            self.reasons.update({node: self.reasons[model] for node, model in self.models.items() if model in self.reasons})
            self.spread_to_getitem()

    def depends_on_data(self, node):
        """Why a node with symbols that depend on data runs in eager: it is the first with such a symbol, or no tensor from eager gives
        the symbol. A program reads it from the shape of such a tensor, which the node therefore has among its sources."""
        symbols = set().union(*[self.of_data.get(n, ()) for n in [node, *self.sources[node]]])
        if symbols and symbols <= self.givers.keys() and is_tensor(node):
            self.sources[node] = list(dict.fromkeys([*self.sources[node], *(self.givers[s] for s in symbols)]))
            return None
        return f"shapes or numbers that depend on data ({', '.join(sorted(map(str, symbols)))})" if symbols else None

    def unknown_reason(self, node):
        if self.own.fallback_random and draws(node):
            return "fallback_random: eager draws the random numbers"
        return by_design(node.target) or vendor.refusal(node.target, self.options) or "no handler for this operator"

    def spread_to_getitem(self):
        for node in self.nodes:
            if node.target is operator.getitem and node.args[0] in self.reasons:
                self.reasons[node] = ""  # it runs with its source and is not listed

    def compile_first(self):
        """The first compilation. With the option compile_timeout another thread does it, and calls that come before its end run in
        eager; on_failure says whether a failure or a late end is an error."""
        try:
            if self.own.compile_timeout == math.inf:
                return self.prepare()
            self.pending = compiler().submit(self.prepare)
            self.pending.result(self.own.compile_timeout)
        except concurrent.futures.TimeoutError:
            late = f"the compilation takes more than compile_timeout = {self.own.compile_timeout:g} s"
            if not self.own.eager_on_failure:
                raise MortiseError(UNSUPPORTED, f'{self.name}: {late}; allow it more, or use on_failure = "eager"') from None
            if self.own.compile_timeout:
                self.note(f"{late}; calls run in eager until it ends")
            return
        except Exception as error:
            self.failed(error)
        self.pending = None

    def failed(self, error):
        if not self.own.eager_on_failure:
            raise error
        self.roll_back(f"the compilation failed: {type(error).__name__}: {' '.join(str(error).split())}")

    def is_pending(self):
        """Whether the compilation is still under way on another thread."""
        pending = self.pending
        if pending is None:
            return False
        if not pending.done():
            return True
        with self.lock:
            if self.pending is not None and (error := pending.exception()) is not None:
                self.failed(error)
            self.pending = None
        return False

    def prepare(self):
        """Partitions and compiles. Nodes that the importer or the compiler refuses move to eager, and the graph is partitioned again."""
        self.regions = []
        with progress.shown(self.name, lambda: (sum(bool(r.specialisations) for r in self.regions), len(self.regions))):
            self.compile_all()
        fallback.tell(self)

    def compile_all(self):
        for _ in range(len(self.nodes) + 1):  # each round moves at least one node
            self.partition = Partition(self)
            self.steps, self.regions = [], []
            segments = self.partition.segments
            try:
                if not segments or list(segments) == [0]:
                    self.prepare_whole(segments.get(0, []))
                else:
                    self.prepare_steps()
                for region in self.regions:
                    if region.key is not self.key:
                        self.compile_of_data(region)
                    elif self.key:
                        region.compile_ahead()
                    else:
                        self.compile(region, ())
                self.check_requirement()
                return
            except NodeUnsupported as error:
                self.refuse(error.node, error.reason)
        raise MortiseError(INTERNAL, f"{self.name}: no partition stands; the last refusals: {list(self.reasons.items())[-3:]}")

    def compile(self, region, key):
        try:
            return region.specialisation(key)
        except MortiseError as error:
            self.refuse_uncompiled(region, error)

    def compile_of_data(self, region):
        """Compiles for all sizes, or moves nodes whose sizes depend on data to eager: there may be other sizes in each call."""
        nodes = [n for n in region.nodes if n in self.of_data]
        try:
            if region.key.unknown:
                raise NeedsNumbers(f"no tensor has the size {min(map(str, region.key.unknown))}")
            region.compile_ahead(required=True)
        except NodeUnsupported as error:
            nodes, reason = [error.node], error.reason
        except (NeedsNumbers, MortiseError) as error:
            reason = str(error)
        else:
            return
        reason = f"for sizes that depend on data: {reason}"
        for node in nodes:
            self.refuse(node, reason)
        raise NodeUnsupported(nodes[-1], reason)

    def refuse_uncompiled(self, region, error):
        """Moves nodes that no device takes to eager: the nodes that the error lists, or the whole region when a plugin could not compile
        it. Re-raises other errors, and every error under `require`, which forbids a silent fallback."""
        refused = {}
        for refusal in error.refusals:
            refused.setdefault(refusal.location, {})[str(refusal)] = None  # a set in order, because ops may share a location
        nodes = [n for n in region.nodes if n.name in refused]
        if not nodes:
            is_failure = error.code != UNSUPPORTED and not self.own.eager_on_failure
            if is_failure or _library.setting(self.options, "require"):
                raise error
            nodes = region.nodes
        for node in nodes:
            self.refuse(node, "; ".join(refused.get(node.name, [" ".join(error.message.split())])))
        raise NodeUnsupported(nodes[-1], self.reasons.get(nodes[-1]) or error.message) from error

    def bind_ahead(self, traced):
        """Starts to bind the weights on another thread, beside what PyTorch does between this compilation and the first call. `traced`: the
        tensors that Dynamo traced with. A call that passes others, or changed ones, binds them itself."""
        if self.key or self.pending or len(traced) != len(self.placeholders):
            return
        weights = {n: t for n, t in zip(self.placeholders, traced, strict=True) if n in self.constants and values.is_real(t)}
        for region in self.regions:
            if region.can_bind(weights):
                binder().submit(region.bind_ahead, weights).add_done_callback(tell_failure)

    def check_requirement(self):
        """Checks the configuration's `require` against the nodes that run in eager, but for those that do so by design. The compiler has
        checked each program by itself."""
        eager = [(node, reason) for node, reason in self.eager_nodes() if not by_design(node.target)]
        if not eager:
            return
        require = _library.setting(self.options, "require")
        match = re.match(r"([0-9.]+)% on ", require)
        covered = 100 * (1 - len(eager) / self.operator_count())
        if match and covered < float(match[1]):
            listed = "; ".join(f"{n.target} ({n.name}): {r}" for n, r in eager[:8])
            raise MortiseError(
                UNSUPPORTED,
                f"required {require}, found {covered:.1f}%: in eager are {listed}; ask for less, or choose another device",
            )

    def refuse(self, node, reason):
        source = node.args[0] if node.target is operator.getitem else node
        self.reasons[source] = reason
        self.spread_to_getitem()

    def region(self, name, nodes, arguments, read, wanted, states, donated=frozenset()):
        has_own = any(n in self.of_data for n in nodes)
        key = Key(arguments, needed_symbols([*arguments, *nodes], wanted)) if has_own else self.key
        own = self.constants, key, self.attributes, self.options, self.own.specialize_limit
        runs = [] if not self.own.repeat_layers else self.runs if len(nodes) == len(self.computed) else None
        made = Region(name, nodes, arguments, read, wanted, states, *own, runs, donated)
        self.regions.append(made)
        return made

    def prepare_whole(self, nodes):
        """Makes one program of the whole graph, so that a call of the graph is one call of the program."""
        nodes = self.partition.with_floating(
            nodes,
            [n for n in self.outputs if isinstance(n, torch.fx.Node)]
            + [s for _, s in self.mutations.values() if isinstance(s, torch.fx.Node)],
        )
        outputs = [self.mutations[n][0] if n in self.mutations else n for n in self.outputs]
        states = dict(self.mutations.values())
        read = [n for n in [*self.placeholders, *self.attributes] if any(u in self.computed or u in self.mutations for u in n.users)]
        # With several programs and pieces in eager, the call itself holds the arguments, too, and may have to be repeated.
        donated = self.donated - {memory_of(n) for n in outputs if isinstance(n, torch.fx.Node)}
        self.whole = self.region(self.name, nodes, self.placeholders, read, outputs, states, donated)

    def prepare_steps(self):
        """Makes the alternating programs and eager pieces, which exchange values through an environment of node -> value. A step is (what
        runs, the nodes that it reads, the nodes that it gives, whether it updates state or starts a collective, the nodes whose values are
        not needed any more)."""
        self.whole = None
        segments = self.partition.segments
        last_reader = self.partition.last_reader()
        final = {n for n in self.outputs if isinstance(n, torch.fx.Node)}
        handled = {}  # placeholder -> segment that updates it in place
        for target, source in self.mutations.values():
            at = self.partition.segment_of.get(source)
            if at is not None and at % 2 == 0 and last_reader.get(target, -1) <= at and target not in final:
                handled[target] = at
        self.copies = [(target, source) for target, source in self.mutations.values() if target not in handled]
        needed_later = final | {s for _, s in self.copies if isinstance(s, torch.fx.Node)}
        for number in sorted(segments):
            nodes = segments[number]
            readers = {
                s
                for n, later in segments.items()
                if n > number
                for node in self.partition.with_floating(later, [])
                for s in self.sources[node]
            }
            # Numbers that depend on data are passed as tensors are; others come from shapes.
            passed = (n for n in nodes if isinstance(n.meta.get("val"), torch.Tensor) or n in self.of_data)
            wanted = [n for n in passed if n in readers or n in needed_later]
            if number % 2 == 0:
                states = {t: s for t, s in self.mutations.values() if handled.get(t) == number}
                self.add_program(number, self.partition.with_floating(nodes, wanted), wanted, states)
            else:
                self.add_eager(self.partition.with_floating(nodes, wanted), wanted)
        floating = [n for n in needed_later if n in self.partition.floating]
        if floating:
            self.add_eager(self.partition.with_floating([], floating), floating)
        self.add_last_uses(needed_later)

    def add_last_uses(self, kept):
        """Adds to each step the nodes whose values nothing behind it reads, but for those of `kept`."""
        used = set(kept)
        for _, inputs, wanted, _, done in reversed(self.steps):
            done += [node for node in dict.fromkeys([*inputs, *wanted]) if node not in used and node.op == "call_function"]
            used.update(inputs)

    def outside(self, nodes, extra=()):
        mine = set(nodes)
        used = dict.fromkeys(s for node in nodes for s in self.sources[node] if s not in mine)
        used.update(dict.fromkeys(extra))
        return list(used)

    def carriers(self, read):
        """Arguments whose extents give a program the values of symbols, where no node that it reads has such an extent: a gathered tensor
        has 2 * s rows."""
        lacking = {symbol for symbol, _, _ in self.key.sources}.difference(*map(values.symbolic_extents, read))
        devices = {node.meta["val"].device for node in read if isinstance(node.meta.get("val"), torch.Tensor)}
        found = []
        for node in self.placeholders if lacking else ():
            value = node.meta.get("val")
            fits = isinstance(value, torch.Tensor) and value.device in devices and not values.refusal(value, self.options)
            if fits and node not in self.constants and not lacking.isdisjoint(values.symbolic_extents(node)):
                lacking -= values.symbolic_extents(node)
                found.append(node)
        return found

    def add_program(self, number, nodes, wanted, states):
        read = self.outside(nodes, states)
        read += self.carriers(read)
        arguments = [n for n in read if n not in self.attributes]
        region = self.region(f"{self.name}_{number // 2}", nodes, arguments, read, wanted, states)
        self.steps.append((region, arguments, wanted, bool(states), []))

    def add_eager(self, nodes, wanted):
        arguments = [n for n in self.outside(nodes) if n not in self.attributes]
        graph = torch.fx.Graph()
        made = {n: graph.placeholder(n.name) for n in arguments}
        for node in self.attributes:
            made[node] = graph.get_attr(node.target)
        for node in nodes:
            made[node] = graph.node_copy(node, lambda n: made[n])
        graph.output([made[n] for n in wanted])
        graph.eliminate_dead_code()
        piece = torch.fx.GraphModule(self.module, graph)
        for name, body in self.bodies.items():
            if hasattr(piece, name):
                setattr(piece, name, body)
        started = any(collectives.starts(node.target) for node in nodes)
        self.steps.append((piece, arguments, wanted, started, []))

    # ---- the call ---------------------------------------------------------------------------------

    def entry(self, alone=False):
        """A callable of the arguments, or of one list of them as AOTAutograd passes it, which returns a list of results. `alone`: nothing
        around it switches autograd and autocast off, which programs do not see, but PyTorch's operators do."""
        call, fail = (without_modes(self.call), without_modes(self.fail)) if alone else (self.call, self.fail)
        return _library.native().Entry(call, fail, report.collecting, vars(profiler))

    def call(self, entry, arguments):
        started = time.perf_counter()
        results = self.checked(entry, arguments)
        if report.collecting:
            report.called(self, started)
        return results

    def checked(self, entry, arguments):
        """The call, compared with eager where the option verify wants it."""
        if not self.verifier.takes():
            return self.run(entry, arguments)
        results, wrong = self.verifier.call(self, lambda: self.run(entry, arguments), arguments)
        if wrong:
            entry.program = None
            self.roll_back(f"verify found a wrong result: {wrong}")
        return results

    def roll_back(self, reason):
        """Runs the whole graph in eager from now on."""
        self.note(f"{reason}; the graph runs in eager from now on (the option save_graphs keeps it for `mortise reduce`)")
        with self.lock:
            self.reasons.update({n: reason if is_operator(n) else "" for n in self.computed if n.target is not operator.getitem})
            self.spread_to_getitem()
            self.prepare()

    def note(self, text):
        self.notes.append(text)
        log.warning("%s: %s", self.name, text)

    def run(self, entry, arguments):
        """Results. Where one program serves the next call, too, `entry` calls it by itself from now on."""
        if self.is_pending():
            results = self.module(*arguments)
            return list(results) if isinstance(results, (tuple, list)) else [results]
        key = self.key.read(arguments) if self.key.sources else ()
        if report.collecting:
            report.collect(self, key)
        partition = self.partition
        try:
            whole = self.whole
            if whole is None:
                return self.call_steps(arguments, key)
            results = whole(arguments, key, bool(report.collecting))
        except (NodeUnsupported, MortiseError) as error:
            return self.recover(entry, arguments, key, error, partition)
        entry.program = None if isinstance(whole.last, NoProgram) or self.verifier.wants_more() else whole.last
        return results

    def fail(self, entry, arguments, error):
        """Results after an error of `entry.program`, if there can be any."""
        entry.program = None
        if self.whole is None or not isinstance(error, MortiseError):
            raise error
        return self.recover(entry, arguments, (), self.whole.described(error, ()), self.partition)

    def recover(self, entry, arguments, key, error, partition):
        """Repeats the call, which ran with `partition`, without what the error refuses, or raises it."""
        if isinstance(error, NodeUnsupported):
            if partition is self.partition and error.node in self.reasons:
                raise MortiseError(INTERNAL, f"{self.name}: {error.node} runs in eager and was refused again: {error.reason}") from error
            self.partition_again(error, error)
        else:
            if not error.refusals and (not self.key or error.region.serves(key)):  # it was compiled, and failed when it ran
                raise error
            try:
                self.refuse_uncompiled(error.region, error)
            except NodeUnsupported as refused:
                self.partition_again(refused, error)
        return self.run(entry, arguments)

    def partition_again(self, refused, error):
        """Moves a node to eager, because this call led to a refusal that the compilation did not. Raises `error` if the call cannot be
        repeated; the next one runs without what was refused."""
        with self.lock:
            self.refuse(refused.node, refused.reason)
            with torch._subclasses.fake_tensor.unset_fake_temporarily():
                self.prepare()
        if error.too_late:
            raise error

    def call_steps(self, arguments, key):
        environment = dict(zip(self.placeholders, arguments))
        numbers = self.key.numbers(key)

        def value(node):
            if not isinstance(node, torch.fx.Node):
                return node
            if node in environment:
                return environment[node]
            if node in self.attributes:
                return self.attributes[node]
            if node in self.mutations:
                return environment[self.mutations[node][0]]
            return numbers(node.meta["val"])

        if key and self.has_collectives:  # what cannot be compiled for these shapes is found before other ranks wait for this one
            for region in self.regions:
                if region.key is self.key:
                    region.compile_for(key)
        too_late = False
        for step, inputs, wanted, acts, done in self.steps:
            read = [value(n) for n in inputs]
            try:
                if isinstance(step, Region):
                    results = step(read, key if step.key is self.key else step.key.read(read), bool(report.collecting))
                else:
                    results = step(*read)
            except (NodeUnsupported, MortiseError) as error:
                error.too_late = too_late
                raise
            too_late = too_late or acts
            environment.update(zip(wanted, results))
            for node in done:
                environment.pop(node, None)
        results = [value(n) for n in self.outputs]
        for target, source in self.copies:
            environment[target].copy_(value(source))
        return results

    # ---- what happened ------------------------------------------------------------------------------

    def eager_nodes(self):
        return [(n, r) for n, r in self.reasons.items() if r]

    def has_programs(self):
        """Whether any operator was compiled; views and constants alone do not count."""
        return any(number % 2 == 0 for number in self.partition.segments)

    def operator_count(self):
        return sum(map(is_operator, self.computed))


def without_modes(function):
    def called(*arguments):
        with torch.no_grad(), torch._C._DisableAutocast():
            return function(*arguments)

    return called


def getattr_path(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module
