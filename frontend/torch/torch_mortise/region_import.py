# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The FX nodes of one region as a mortise graph: inputs, nodes, repeated layers, and outputs with eager's strides."""

import logging
import operator

import torch
import torch.fx

from . import dtypes, indices, places, repeats
from .errors import MortiseError, Unsupported
from .extents import NeedsNumbers
from .importer import HANDLERS, Emitter, vendor
from .importer.core import Value, programs
from .layout import AS_STRIDED, dense_strides, inverse, memory_order, view_source

log = logging.getLogger("torch_mortise")
CONSTANT, STATE, DONATED = 1, 2, 4  # MortiseValueFlag
PLAIN_ROLE, CONSTANT_ROLE, STATE_ROLE, DONATED_ROLE = range(4)  # native/program.cpp, enum Role
ROLES = {0: PLAIN_ROLE, CONSTANT: CONSTANT_ROLE, STATE: STATE_ROLE, DONATED: DONATED_ROLE}
# the source of a result: native/program.cpp, enum Source
OUTPUT, ARGUMENT, OUTPUT_VIEW, ARGUMENT_VIEW, OBJECT = range(5)


class NodeUnsupported(Exception):
    """`node` cannot be imported, so the graph is partitioned again without it. `too_late`: as MortiseError has it."""

    too_late = False

    def __init__(self, node, reason):
        super().__init__(f"{node}: {reason}")
        self.node, self.reason = node, reason


class Importer(Emitter):
    """Imports the nodes of one region, for given numbers or for all (symbols.Numbers, symbols.Symbols)."""

    def __init__(self, region, numbers, builder):
        super().__init__(builder, numbers, getattr(numbers, "table", None))
        self.region, self.numbers = region, numbers
        self.computed = set(region.nodes)
        self.memories = {}  # of static inputs that have equal dtype, shape and strides
        self.repetitions = []  # RepeatedCopies
        self.inputs = []  # tuples as Program.signature (native/program.cpp) reads them
        self.input_numbers = {}  # node -> its number among the inputs

    def is_constant(self, node):
        return node in self.region.constants

    def value_of(self, node):
        value = super().value_of(node)
        if value is None:  # the values of nodes that the builder repeated are made here, because few are read
            values = (repetition.value_of(node) for repetition in self.repetitions)
            value = next((v for v in values if v is not None), None)
        return value

    def lookup(self, node):
        value = self.value_of(node)
        if value is None:
            symbolic = node.meta.get("val")
            if not isinstance(symbolic, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise NodeUnsupported(node, "its value is not at hand")
            value = self.environment[node] = self.numbers(symbolic)
        return value

    def add_input(self, node):
        dtype, shape, strides, order = self.memory_of(node.meta["val"])
        position = self.region.position.get(node, -1)
        region = self.region
        flags = STATE if node in region.states else CONSTANT if node in region.constants else DONATED if node in region.donated else 0
        memory_shape = shape if order is None else tuple([shape[i] for i in order])
        place = places.place(node.meta["val"].device)
        value = self.described(*self.builder.input(node.name, dtype, programs(memory_shape), flags, place))
        may_index = flags in (0, DONATED) and node.meta["val"].dtype in (torch.int64, torch.int32)
        held = indices.allowed(node, self.computed) if may_index else indices.NONE
        self.inputs.append((position, ROLES[flags], dtype, shape, strides, memory_shape, place, *held))
        self.input_numbers[node] = len(self.input_numbers)
        self.environment[node] = value if order is None else self.transpose(value, inverse(order))

    def memory_of(self, fake):
        """dtype, shape, strides and, if the dimensions are in another order in memory, that order."""
        key = None if fake._has_symbolic_sizes_strides else (fake.dtype, fake.shape, fake.stride())
        found = self.memories.get(key) if key else None
        if found is None:
            shape = self.numbers.sizes(fake.shape)
            strides = self.numbers.sizes(fake.stride()) if self.numbers.known(fake.stride()) else dense_strides(shape)
            order = memory_order(shape, strides)
            if order is None:
                strides = dense_strides(shape)
            elif order == tuple(range(len(shape))):
                order = None
            found = dtypes.number(fake.dtype), shape, strides, order
            if key:
                self.memories[key] = found
        return found

    def import_node(self, node):
        self.node, self.location = node, node.name
        if node.target is operator.getitem:
            self.environment[node] = self.value_of(node.args[0])[node.args[1]]
            return
        handler = HANDLERS.get(node.target)
        arguments = torch.fx.node.map_arg(node.args, self.lookup)
        keywords = torch.fx.node.map_arg(node.kwargs, self.lookup) if node.kwargs else {}
        try:
            if handler is None:
                self.environment[node] = vendor.import_op(self, node.target, arguments, keywords)
            else:
                self.environment[node] = handler(self, *arguments, **keywords)
        except Unsupported as error:
            raise NodeUnsupported(node, str(error)) from None
        except MortiseError as error:
            raise NodeUnsupported(node, error.message) from error
        except (NeedsNumbers, NodeUnsupported):
            raise
        except Exception as error:  # a fault of ours costs speed and no result
            log.error("%s (%s) cannot be imported; please report this", node.target, node.name, exc_info=error)
            raise NodeUnsupported(node, f"its import raised {type(error).__name__}: {error} (please report this)") from error

    def import_nodes(self, nodes):
        at = 0
        for run in self.region.equal_layers():
            for node in nodes[at : run.start]:
                self.import_node(node)
            at = run.start + self.import_run(nodes, run)
        for node in nodes[at:]:
            self.import_node(node)

    def import_run(self, nodes, run):
        """Imports the first copies of a run and lets the builder repeat the rest. Returns the number of nodes imported then."""
        starts = []
        for copy in range(repeats.IMPORTED):
            starts.append(self.builder.value_count())
            for node in nodes[run.start + copy * run.period : run.start + (copy + 1) * run.period]:
                self.import_node(node)
        first, second = starts[1:]
        count = self.builder.value_count() - second
        if count and second - first == count and (copied := RepeatedCopies(self, nodes, run, second, count)).made:
            copied.note()
            self.repetitions.append(copied)
            return run.copies * run.period
        return repeats.IMPORTED * run.period


class RepeatedCopies:
    """The copies of a run after the imported ones. `start`, `count`: the values of the last imported copy."""

    def __init__(self, importer, nodes, run, start, count):
        self.importer, self.nodes, self.run, self.start, self.count = importer, nodes, run, start, count
        base = run.start + (repeats.IMPORTED - 1) * run.period
        self.model = [importer.environment[node] for node in nodes[base : base + run.period]]
        self.index = {node: i for i, node in enumerate(nodes[run.start : run.start + run.copies * run.period])}
        self.own = []  # for each copy but the first: the numbers of its own values
        self.made = self.repeat()

    def repeat(self):
        run, copies = self.run, self.run.copies - repeats.IMPORTED
        for copy, row in enumerate(run.own, 1):
            ids = [self.number(node) for node in row]
            if None in ids:
                return False
            self.own.append(ids)
            if copy == repeats.IMPORTED - 1:
                self.places = {value: place for place, value in enumerate(ids)}
        base = run.start + (repeats.IMPORTED - 1) * run.period
        names = [node.name for node in self.nodes[base : base + (copies + 1) * run.period]]
        own = [value for row in self.own for value in row]
        return self.importer.builder.repeat(self.start - self.count, self.count, copies, tuple(own), tuple(names))

    def number(self, node):
        """The number of the value of a node outside the current copy; None if the node does not have a single value."""
        value = self.importer.value_of(node)
        if value is None:  # perhaps it belongs to a copy that is not made yet
            value = self.value_of(node)
        return value.id if isinstance(value, Value) else None

    def counterpart(self, number, copy):
        """The number in copy `copy` of the value `number` that the last imported copy made or read."""
        if self.start <= number < self.start + self.count:
            return number + (copy - repeats.IMPORTED + 1) * self.count
        place = self.places.get(number)
        return number if place is None else self.own[copy - 1][place]

    def copied(self, value, copy):
        if isinstance(value, Value):
            return Value(self.counterpart(value.id, copy), value.dtype, value.shape)
        return tuple([self.copied(v, copy) for v in value]) if isinstance(value, tuple) else value

    def value_of(self, node):
        """The value of a node of a repeated copy, otherwise None."""
        at = self.index.get(node)
        if at is None:
            return None
        copy, place = divmod(at, self.run.period)
        return self.copied(self.model[place], copy)

    @property
    def node_count(self):
        return (self.run.copies - repeats.IMPORTED) * self.run.period

    def note(self):
        """Records what the importer would have cached, had it imported the copies."""
        e, run = self.importer, self.run
        made = range(self.start, self.start + self.count)
        broadcasts = [(key, value) for key, value in e.broadcasts.items() if value.id in made]
        masks = [(number, value) for number, value in e.boolean_masks.items() if number in made]
        for copy in range(repeats.IMPORTED, run.copies):
            for (number, *rest), value in broadcasts:
                e.broadcasts[(self.counterpart(number, copy), *rest)] = self.copied(value, copy)
            for number, value in masks:
                e.boolean_masks[self.counterpart(number, copy)] = self.copied(value, copy)


class Outputs:
    """Decides how each result of a region gets eager's strides: the program writes the memory, or the result is a view where eager returns
    a view."""

    def __init__(self, importer):
        self.importer, self.region = importer, importer.region
        self.outputs, self.by_node = [], {}
        self.results = []

    def size_of(self, fake):
        sizes = self.importer.numbers.sizes
        return sizes(fake.shape), sizes(fake.stride())

    def shift(self, node, source):
        """The offset of `node` from the start of `source`, in elements."""
        return self.importer.numbers(node.meta["val"].storage_offset() - source.meta["val"].storage_offset())

    def emit(self, node, shape, strides, order):
        number = self.by_node.get(node)
        if number is None:
            value = self.importer.value_of(node)
            e = self.importer
            e.location = node.name
            if value.shape != shape:
                raise NodeUnsupported(node, f"expected shape {shape}, the import gave {value.shape}")
            value = e.transpose(e.convert(value, e_dtype := dtypes.number(node.meta["val"].dtype)), order)
            device = node.meta["val"].device
            place = places.place(device)
            e.builder.output(value.id, -1, place)
            number = self.by_node[node] = len(self.outputs)
            keywords = {"dtype": dtypes.TO_TORCH[e_dtype], "device": device}
            self.outputs.append((-1, e_dtype, value.shape, place, (shape, strides), keywords))
        return number

    def add(self, node):
        if not isinstance(node, torch.fx.Node):
            self.results.append((OBJECT, 0, node, None, None, None))
            return
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor):
            self.results.append((OBJECT, 0, self.importer.lookup(node), None, None, None))
            return
        if node in self.region.position:
            self.results.append((ARGUMENT, self.region.position[node], None, None, None, None))
            return
        shape, strides = self.size_of(fake)
        if self.add_view_of_argument(node, shape, strides):
            return
        order = memory_order(shape, strides)
        if fake._has_symbolic_sizes_strides and self.is_strided_view_of_argument(node):
            # AOTAutograd makes such a result again from the argument, with the offset of what it gets, which only a view has.
            raise NodeUnsupported(node, "as_strided of an argument over symbols, as a result")
        if order is not None:
            self.results.append((OUTPUT, self.emit(node, shape, strides, order), None, None, None, None))
            return
        self.add_view(node, shape, strides)

    def add_view_of_argument(self, node, shape, strides):
        source = node
        while source is not None and source not in self.region.position:
            source = view_source(source)
        if source is None or source in self.region.states:
            return False
        self.results.append((ARGUMENT_VIEW, self.region.position[source], None, shape, strides, self.shift(node, source)))
        return True

    def is_strided_view_of_argument(self, node):
        while node is not None and node not in self.region.position:
            node = view_source(node, strided=True)
        return node is not None and node not in self.region.states

    def add_view(self, node, shape, strides):
        source, found = view_source(node, strided=True), None
        anywhere = node.target is AS_STRIDED  # as_strided reaches all of the storage, also outside its operand
        while source is not None:
            base_shape, base_strides = self.size_of(source.meta["val"])
            order = memory_order(base_shape, base_strides)
            if order is not None and self.importer.value_of(source) is not None:
                found = source, base_shape, base_strides, order
                if not anywhere:
                    break
            anywhere = anywhere or source.target is AS_STRIDED
            source = view_source(source, strided=True)
        if found is None:
            raise NodeUnsupported(node, f"a result of strides {strides} for shape {shape}, which leaves gaps")
        self.results.append((OUTPUT_VIEW, self.emit(*found), None, shape, strides, self.shift(node, found[0])))

    def add_state(self, node, source):
        e = self.importer
        number = e.input_numbers[node]
        _, _, dtype, shape, strides, memory_shape, place, *_ = e.inputs[number]
        value = e.tensor(e.lookup(source) if isinstance(source, torch.fx.Node) else source, dtype, shape)
        value = e.transpose(value, memory_order(shape, strides))
        e.builder.output(value.id, number)
        self.outputs.append((number, dtype, memory_shape, place, (), {}))
