# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A part of an FX graph that runs as one program: compile, bind, call. A region with symbols is compiled once for all shapes or, if
that is impossible, once for each shape."""

import collections
import contextlib
import functools
import json
import logging
import math
import os
import sys
import threading
import time
import weakref

import torch
import torch.fx
from torch.autograd import profiler

from . import _library, donation, places, pool, repeats
from .errors import UNSUPPORTED, MortiseError, Refusal
from .extents import NeedsNumbers, at
from .fallback import site
from .region_import import ARGUMENT, CONSTANT, OBJECT, STATE, Importer, NodeUnsupported, Outputs

log = logging.getLogger("torch_mortise")
LITERAL_ELEMENTS = 64  # a tensor that the graph holds becomes a literal up to this size
SIGNATURES = 256  # sets of symbol values for which a program keeps signatures
REBINDS = 16  # a constant that is bound more often than this becomes an ordinary input

regions = weakref.WeakSet()
forked = False  # in a forked child, where nothing is compiled


def renew_locks():
    """In a forked child, where the threads that may hold locks do not exist."""
    global forked
    forked = True
    for region in list(regions):
        region.lock = threading.RLock()
        for found in region.all_programs():
            found.lock = threading.Lock()


os.register_at_fork(after_in_child=renew_locks)


class NoProgram:
    """Stands in for the program of a region that computes nothing: every result is an argument, a view of one, or a number."""

    handle = 0

    def __init__(self, results):
        self.results = results

    def run(self, arguments):
        return [
            (
                arguments[index]
                if source == ARGUMENT
                else value
                if source == OBJECT
                else _library._view(arguments[index], shape, strides, shift)
            )
            for source, index, value, shape, strides, shift in self.results
        ]

    profile = run

    def report(self):
        return "{}"

    def invalidate(self):
        pass


class Specialisation:
    """A region compiled for one set of symbol values, or for all of them (`key` is None)."""

    def __init__(self, region, key):
        self.key, self.storages, self.input_count, self.sources, self.donated = key, set(), 0, None, {}
        self.options = region.options
        # bind_s: what the last call that found its weights unbound spent on binding them, or on waiting for that
        self.record = record = {"import_s": 0.0, "compile_s": 0.0, "bind_s": 0.0, "binds": 0, "late_s": 0.0}
        self.signatures = collections.OrderedDict()  # symbol values -> the native program with the shapes that they give
        self.lock = threading.Lock()
        started = time.perf_counter()
        builder = _library.native().Builder(_library.session(region.options), region.name)
        numbers = region.key.numbers(key) if key is not None else region.key.symbols()
        if key is None:
            for (symbol, _, _), facts in zip(region.key.sources, region.key.ranges):
                builder.symbol(str(symbol), *facts)
        importer = Importer(region, numbers, builder)
        for node in region.inputs:
            importer.add_input(node)
        for node in region.literals:
            importer.environment[node] = importer.tensor_literal(region.attributes[node])
        importer.import_nodes(region.nodes)
        record["repeated"] = sum(repetition.node_count for repetition in importer.repetitions)
        outputs = Outputs(importer)
        for node in region.wanted:
            outputs.add(node)
        for node, source in region.states.items():
            outputs.add_state(node, source)
        record["import_s"] = time.perf_counter() - started
        self.inputs, self.outputs, self.results = importer.inputs, outputs.outputs, outputs.results
        if not outputs.outputs:
            self.program, self.constants = NoProgram(()), []
            return
        started = time.perf_counter()
        try:
            self.program = builder.compile(())
        except MortiseError as error:
            error.refusals = tuple([Refusal(*r) for r in builder.refusals()])
            raise
        record["compile_s"] = time.perf_counter() - started
        self.input_count = len(importer.inputs)
        self.donated = {importer.input_numbers[node]: node for node in region.donated}
        self.constants = [
            (number, node, *importer.inputs[number]) for node, number in importer.input_numbers.items() if importer.inputs[number][1] == 1
        ]
        if not self.constants and key is not None:
            self.bind(region, None, key)

    def signature(self, key):
        """The native program for the symbol values of one call."""
        found = self.signatures.get(key)
        if found is not None:
            return found
        values = key if self.key is None else ()
        results = tuple([at(result, values) for result in self.results])
        if isinstance(self.program, NoProgram):
            found = NoProgram(results)
        else:
            inputs = tuple([at(i, values) for i in self.inputs])
            outputs = tuple([self.allocated(at(o, values)) for o in self.outputs])
            found = self.program.signature(inputs, outputs, results, values)
        with self.lock:
            self.signatures[key] = found
            if len(self.signatures) > SIGNATURES:
                self.signatures.popitem(last=False)
        return found

    def allocated(self, output):
        """The output with the function that allocates its tensor. An output that aliases an input needs none."""
        alias, number, shape, place, positional, keywords = output
        if alias >= 0 or place:  # the allocator of a device has a pool of its own
            return output
        dtype = keywords["dtype"]
        return alias, number, shape, place, (*positional, dtype), {}, pool.allocator(math.prod(shape) * dtype.itemsize, self.options)

    def bind(self, region, arguments, key):
        """Packs the constants among these arguments."""
        sources, memory, tensors = ([None] * self.input_count for _ in range(3))
        for number, node, position, *_ in self.constants:
            sources[number] = arguments[position] if position >= 0 else region.attributes[node]
        # A weight that another thread changes from here on has another version than the one bound, so that the next call binds again.
        versions = _library.native().versions(sources)
        for number, _, _, _, _, shape, strides, *_ in self.constants:
            memory[number] = now = sources[number].detach()
            same = all(a == b or n == 1 for a, b, n in zip(now.stride(), strides, shape))
            tensors[number] = now if same else _library._dense(now, shape, strides)
        places.synchronize(t for t in tensors if t is not None)
        self.signature(key).bind(sources, memory, tensors, versions)
        self.sources = sources
        self.storages = {t.untyped_storage().data_ptr() for t in sources if t is not None}
        self.record["binds"] += 1

    def identity(self, arguments):
        """The ids of the tensors that a call passes as constants. Bound tensors are kept alive, so no other tensor has their ids."""
        return self.key, tuple([id(arguments[position]) for _, _, position, *_ in self.constants if position >= 0])

    def replaced(self, stale, arguments):
        """Whether the constant may be bound again in place: the call passes the bound tensor itself, changed, or nobody else holds the
        bound tensor any more."""
        bound = self.sources[stale]
        given = arguments[next(position for number, _, position, *_ in self.constants if number == stale)]
        return bound is given or sys.getrefcount(bound) <= 4  # references: our list, the extension's list, `bound`, and the call's argument


def roles(constants, attributes, states):
    """{node: its role}, of the nodes from outside that a region or a graph reads; ordinary inputs have none."""
    return dict.fromkeys([*constants, *attributes], CONSTANT) | dict.fromkeys(states, STATE)


class Region:
    """`nodes`: what is computed, in order; `arguments`: the nodes whose values a call passes; `read`: the nodes from outside that `nodes`
    or `states` read; `wanted`: the nodes whose values it returns; `states`: {argument: the node whose value is written into its memory};
    `runs`: the equal layers among `nodes` (repeats.find), None when they are not known yet; `donated`: arguments that a call may overwrite
    if it holds them alone."""

    def __init__(
        self, name, nodes, arguments, read, wanted, states, constants, key, attributes, options, limit, runs=None, donated=frozenset()
    ):
        self.runs = runs
        self.name, self.nodes, self.wanted, self.states = name, nodes, wanted, states
        self.position = {node: i for i, node in enumerate(arguments)}
        self.key, self.options, self.limit = key, options, limit
        self.attributes = attributes  # get_attr node -> tensor
        self.for_all = bool(key)  # compile once for all shapes, while that works
        self.lock = threading.RLock()
        self.last = None  # the native program of the last call without symbols; its `run` tells whether it serves the next call, too
        self.specialisations = collections.OrderedDict()  # numbers -> the program in use
        self.variants = {}  # (numbers, identities of the constants) -> the program they are bound to
        self.notes = []
        tensors = [n for n in read if isinstance(n.meta.get("val"), torch.Tensor)]
        self.literals = [n for n in tensors if n in attributes and attributes[n].numel() <= LITERAL_ELEMENTS]
        self.inputs = [n for n in tensors if n not in self.literals]
        self.constants = {n for n in self.inputs if n in constants and n not in states} | {n for n in self.inputs if n in attributes}
        self.donated = {n for n in self.inputs if n in donated} - self.constants - states.keys()
        regions.add(self)

    def equal_layers(self):
        """The runs of equal layers among the nodes, as repeats.find has them."""
        if self.runs is None:
            self.runs = repeats.find(self.nodes, roles(self.constants, (), self.states))
        return self.runs

    def specialisation(self, key):
        """The specialisation that serves these symbol values: the one for all shapes, or one for these values. Compiles it if needed."""
        wanted = None if self.for_all else key
        found = self.specialisations.get(wanted)
        if found is None:
            with self.lock:
                wanted = None if self.for_all else key
                found = self.specialisations.get(wanted)
                if found is None:
                    found = self.specialise(wanted, key)
        elif len(self.specialisations) > 1:
            try:
                self.specialisations.move_to_end(wanted)
            except KeyError:  # another thread evicted it just now; the program still runs
                pass
        return found

    def compile_for_all(self, required=False):
        """The specialisation for all shapes. None: the region is compiled for each shape from now on, and a note gives the reason. Raises
        it if the specialisation is `required`."""
        try:
            return Specialisation(self, None)
        except (NeedsNumbers, NodeUnsupported, MortiseError) as error:
            if required:
                raise
            self.for_all = False
            self.note(f"compiled for each shape, not for all: {error}")
            return None

    def serves(self, key):
        """Whether a program for these numbers exists."""
        return (None if self.for_all else key) in self.specialisations

    def compile_ahead(self, required=False):
        """Compiles for all shapes, before the first call gives shapes."""
        with self.lock, torch._subclasses.fake_tensor.unset_fake_temporarily():
            if self.for_all and (found := self.compile_for_all(required)) is not None:
                self.specialisations[None] = found

    def compile_for(self, key):
        """Compiles for the numbers of a call that is about to begin. Raises what the call would raise."""
        try:
            self.specialisation(key)
        except MortiseError as error:
            self.described(error, key)
            raise

    def specialise(self, wanted, key):
        # a compilation must not see the fake tensors of a trace that may be under way
        with torch._subclasses.fake_tensor.unset_fake_temporarily():
            started = time.perf_counter()
            found = self.compile_for_all() if wanted is None else None
            if found is None:
                wanted = key
                found = Specialisation(self, key)
        if self.key:  # otherwise the time is part of the graph's wall_s
            found.record["late_s"] = time.perf_counter() - started
        self.specialisations[wanted] = found
        if len(self.specialisations) > self.limit:
            oldest, _ = self.specialisations.popitem(last=False)
            self.variants = {k: v for k, v in self.variants.items() if k[0] != oldest}
            self.note(f"dropped the program for {oldest}: more than specialize_limit = {self.limit} shapes are in use")
        return found

    def note(self, text):
        self.notes.append(text)
        log.warning("%s: %s", self.name, text)

    @functools.cached_property
    def label(self):
        """What torch.profiler shows: the region's name, and the lines of the model that it comes from."""
        sites = list(filter(None, map(site, self.nodes)))
        ends = dict.fromkeys([*sites[:1], *sites[-1:]])
        return f"mortise {self.name}" + (f" ({' to '.join(ends)})" if ends else "")

    def __call__(self, arguments, key, profile=False):
        recorded = profiler.record_function(self.label) if profiler._is_profiler_enabled else contextlib.nullcontext()
        try:
            with recorded:
                return self.call(arguments, key, profile)
        except MortiseError as error:
            self.described(error, key)
            raise

    def described(self, error, key):
        """The error of a call, with this region and what was refused."""
        error.region = self
        if error.code == UNSUPPORTED and not error.refusals and not forked:
            error.refusals = self.uncovered(key)
        return error

    def uncovered(self, key):
        """The refusals of all devices, where a plugin refused what it had offered, and no program could be made without that offer."""
        answers = [answer for found in self.programs(key) for answer in json.loads(found.program.report()).get("uncovered", ())]
        return tuple([Refusal(*[answer[field] for field in Refusal._fields]) for answer in answers])

    def call(self, arguments, key, profile):
        if self.last is not None and not profile:
            results = self.last.run(arguments)
            if type(results) is list:
                return results
        found = self.specialisation(key)
        while True:
            binds = found.record["binds"]
            program = found.signature(key)
            result = program.profile(arguments) if profile else program.run(arguments)
            if type(result) is not int:
                if not key:
                    self.last = program
                return result
            # The number of a constant that is not the one bound, or of a donated input that the call does not hold alone.
            if result in found.donated:
                found = self.keep(found, arguments, result, key)
            else:
                found = self.rebind(found, arguments, result, binds, key)

    def keep(self, found, arguments, number, key):
        """A specialisation that does not overwrite the arguments which something else may read: this one, and others like it."""
        with self.lock:
            held = {node for node in self.donated if donation.shared(arguments, (self.position[node],)) >= 0} | {found.donated[number]}
            if held & self.donated:
                names = ", ".join(sorted(node.name for node in held))
                self.notes.append(f"something else may read these saved tensors, which keep their contents from now on: {names}")
                log.info("%s: %s", self.name, self.notes[-1])
                self.donated -= held
                self.specialisations.clear()
                self.variants.clear()
            return self.specialisation(key)

    def rebind(self, found, arguments, stale, binds, key):
        """Returns a specialisation to which the caller's weights are bound. Each of several layers that share one graph gets a program of
        its own; a weight that changed is bound again."""
        started = time.perf_counter()
        with self.lock:
            if found.record["binds"] != binds:  # another thread was faster
                found.record["bind_s"] = time.perf_counter() - started
                return found
            identity = found.identity(arguments)
            other = self.variants.get(identity)
            if other is not None and other is not found:
                self.specialisations[found.key] = other
                return other
            if other is None and found.sources and stale < found.input_count:
                if not found.replaced(stale, arguments):
                    if sum(other == found.key for other, _ in self.variants) >= self.limit:
                        return self.demote(found, stale, f"came as {self.limit} different tensors", key)
                    found = self.specialise(found.key, key)
                    started = time.perf_counter()
            if found.record["binds"] > REBINDS and stale < found.input_count:
                return self.demote(found, stale, f"changed {found.record['binds']} times", key)
            found.bind(self, arguments, key)
            found.record["bind_s"] = time.perf_counter() - started
            self.variants = {k: v for k, v in self.variants.items() if v is not found}
            self.variants[identity] = found
            return found

    def can_bind(self, weights):
        return bool(self.constants) and all(n in weights or n in self.attributes for n in self.constants)

    def bind_ahead(self, weights):
        """Binds {argument: tensor} unless a call has done it. The first call waits for the lock."""
        with self.lock, torch.no_grad():
            found = self.specialisations.get(())
            if found is None or found.record["binds"]:
                return
            arguments = [weights.get(node) for node in self.position]
            try:
                found.bind(self, arguments, ())
            except (MortiseError, RuntimeError, MemoryError) as error:  # the first call binds again, and raises what is wrong
                log.debug("%s: binding ahead of the first call failed: %s", self.name, error)
            else:
                self.variants[found.identity(arguments)] = found

    def demote(self, found, stale, why, key):
        node = next((node for number, node, *_ in found.constants if number == stale), None)
        self.note(f"{node.name} {why}: it is an ordinary input from now on")
        self.constants.discard(node)
        self.runs = self.runs and None  # layers are equal only if their inputs have equal roles
        self.specialisations.clear()
        self.variants.clear()
        return self.specialise(found.key, key)

    def programs(self, key):
        """Every specialisation for these numbers, the one in use first."""
        key = key if key in self.specialisations else None  # None: the one for all shapes
        found = self.specialisations.get(key)
        others = [v for (k, _), v in list(self.variants.items()) if k == key and v is not found]
        return [found, *others] if found is not None else others

    def all_programs(self):
        return {*self.specialisations.values(), *self.variants.values()}

    def reads_any(self, addresses):
        """Whether a bound constant is in one of these storages."""
        return any(found.storages & addresses for found in self.all_programs())

    def invalidate(self):
        with self.lock:  # a binding that is under way read the contents from before
            self.last = None
            for found in self.all_programs():
                if found.constants:
                    found.program.invalidate()
