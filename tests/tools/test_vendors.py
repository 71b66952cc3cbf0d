# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The vendors of our own, sdk/examples/{hello,acme-npu,oppack}, from the installed SDK alone: they build without a warning, conform, and
share one graph."""

import ctypes
import json

import measure
import pytest
import torch
import torch_mortise
from figures.three_vendors import VENDORS, Vendors
from torch.nn import functional as F


@pytest.fixture(scope="module")
def vendors(sdk, tmp_path_factory):
    (folder := tmp_path_factory.mktemp("vendors")).joinpath("mortise-sdk").symlink_to(sdk)
    made = Vendors(folder)
    for name in VENDORS:
        made.run("cmake", "-S", name, "-B", f"{name}/build", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON")
        made.run("cmake", "--build", f"{name}/build")
    return made


@pytest.mark.parametrize("name", VENDORS)
def test_conforms(vendors, name):
    said = vendors.verdict(name)
    assert "nothing wrong" in said and "no claim is refused" in said


def test_hello_has_200_lines_at_most(vendors):
    sources = [*(vendors.folder / "hello").glob("*.c"), *(vendors.folder / "hello").glob("*.h")]
    assert 0 < sum(len(source.read_text().splitlines()) for source in sources) <= 200


def test_an_op_pack_without_its_owner(vendors):
    assert "which no other plugin offers" in vendors.check("oppack", status=1)


def test_one_graph_on_all(vendors):
    def graph(x, weight, bias, q, k, v, y, z):
        return F.gelu(F.linear(x, weight, bias)), F.scaled_dot_product_attention(q, k, v), y * z, torch.sin(y)

    x, weight, bias = torch.randn(32, 384).half(), torch.randn(1536, 384).half() / 20, torch.randn(1536).half()
    heads = [torch.randn(1, 12, 8, 32) for _ in range(3)]
    inputs = (x, weight, bias, *heads, torch.randn(8, 8), torch.randn(8, 8))
    compiled = torch.compile(graph, backend="mortise", options={"device": "cpu,acme-npu,oppack,hello", "plugin_path": vendors.path(VENDORS),
                                                                "place": "op=mul device=hello"})
    with torch.no_grad():
        assert measure.compare(compiled(*inputs), graph(*inputs)).within(2e-3)
    assert set(torch_mortise.last_report()["placement"]) == {"cpu", "acme-npu", "oppack", "hello"}


@pytest.mark.parametrize("features, taken", [(7000, True), (8000, False)])
def test_scratch_refuses_with_the_bytes(vendors, features, taken):
    x, w, y = f"tensor<1x{features}xf16>", f"tensor<16x{features}xf16>", "tensor<1x16xf16>"
    (vendors.folder / "wide.mlir").write_text(f"""
        func.func @graph(%x: {x}, %w: {w}) -> {y} {{
          %0 = mortise.linear %x, %w {{weight_transposed = false}} : ({x}, {w}) -> {y}
          return %0 : {y}
        }}""")
    said = vendors.run("mortise", "check", "wide.mlir", "--device", "acme-npu", "--plugins", vendors.plugins("acme-npu"),
                       status=0 if taken else 1)
    assert ("right" if taken else f"take {features * 34 + 64} bytes, and the unit's scratch has 262144") in said


# ---- acme_npu.lookup, an op of a vendor's own: table[x + 128] for each x

def lookup(x, table):
    return table[x.long() + 128]


def numbers():
    return torch.randint(-128, 128, (3, 5), dtype=torch.int8), torch.randint(-128, 128, (256,), dtype=torch.int8)


def test_an_op_of_its_own_is_tried_without_a_reference(vendors):
    said = vendors.verdict("acme-npu")
    assert "acme_npu.lookup of its own ran in 4 cases" in said and "there is no reference for it" in said


@pytest.fixture
def library():
    """The namespace of acme-npu's operators, which one test of a process has at a time."""
    with torch.library._scoped_library("acme_npu", "DEF") as made:
        yield made


@pytest.mark.parametrize("isolate", ["off", "acme-npu"])
def test_an_op_of_its_own_from_torch_compile(isolate, vendors, library):
    calls = []

    def eager(x, table):
        calls.append(x)
        return lookup(x, table)

    library.define("lookup(Tensor x, Tensor table) -> Tensor")
    library.impl("lookup", eager, "CPU")
    library.impl("lookup", lambda x, table: torch.empty_like(x), "Meta")

    def graph(x, table):
        return -torch.ops.acme_npu.lookup(torch.abs(x).clamp(max=100), table)

    x, table = numbers()
    wanted = -lookup(torch.abs(x).clamp(max=100), table)
    options = {"device": "cpu,acme-npu", "plugin_path": vendors.path(["acme-npu"]), "isolate": isolate}
    for dynamic in (False, True):
        torch._dynamo.reset()
        torch_mortise.reset()
        with torch.no_grad():
            found = torch.compile(graph, backend="mortise", options=options, dynamic=dynamic)(x, table)
        assert torch.equal(found, wanted) and calls == []
        assert torch_mortise.last_report()["placement"]["acme-npu"] == 1
    torch._dynamo.reset()
    torch_mortise.reset()
    with torch.no_grad():  # without its plugin
        found = torch.compile(graph, backend="mortise", options={"device": "cpu"})(x, table)
    assert torch.equal(found, wanted) and len(calls) == 1
    eagerly = [entry for each in torch_mortise.last_report()["graphs"] for entry in each["eager"]]
    assert [entry["op"] for entry in eagerly] == ["acme_npu.lookup.default"]
    assert "no installed plugin declares the op 'acme_npu.lookup'" in eagerly[0]["reason"]


class Option(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Type(ctypes.Structure):  # MortiseType
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("dim_exprs", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("stride_exprs", ctypes.c_void_p)]


@pytest.mark.parametrize("isolate", ["off", "acme-npu"])
def test_an_op_of_its_own_from_the_c_api(isolate, vendors):
    api = ctypes.CDLL(str(measure.built("lib/libmortise.so")))
    api.mortise_status_message.restype = ctypes.c_char_p

    def call(name, *arguments):
        function = getattr(api, f"mortise_{name}")
        function.restype = ctypes.c_void_p
        if status := function(*arguments):
            raise RuntimeError(api.mortise_status_message(ctypes.c_void_p(status)).decode())

    def made(name, *arguments, kind=ctypes.c_void_p):
        place = kind()
        call(name, *arguments, ctypes.byref(place))
        return place

    def typed(tensor):
        return Type(ctypes.sizeof(Type), None, 10, tensor.dim(), (ctypes.c_int64 * tensor.dim())(*tensor.shape))  # MORTISE_I8

    options = (Option * 3)((b"device", b"acme-npu"), (b"plugin_path", vendors.path(["acme-npu"]).encode()), (b"isolate", isolate.encode()))
    session = made("session_create", options, ctypes.c_size_t(3))
    builder = made("builder_create", session, b"graph")
    x, table = numbers()
    inputs = (ctypes.c_uint32 * 2)(*[made("builder_input", builder, b"x", ctypes.byref(typed(each)), 0, kind=ctypes.c_uint32).value
                                    for each in (x, table)])
    result, none, one, two = (ctypes.c_uint32 * 1)(), *map(ctypes.c_size_t, range(3))

    def add(operands):
        call("builder_op", builder, b"acme_npu.lookup", operands, two, None, none, b"a.py:1", result, one, None)

    with pytest.raises(RuntimeError, match="expected i8 numbers and a table i8\\[256\\], found i8\\[256\\] and i8\\[3, 5\\]; at a.py:1"):
        add((ctypes.c_uint32 * 2)(inputs[1], inputs[0]))
    add(inputs)
    call("builder_output", builder, result[0], ctypes.c_int64(-1))
    program = made("compile", session, builder, None, none)
    report = made("program_report", program)
    assert [region["device"] for region in json.loads(ctypes.string_at(report))["placement"]] == ["acme-npu"]
    found = torch.empty_like(x)
    pointers = (ctypes.c_void_p * 2)(x.data_ptr(), table.data_ptr())
    call("program_run_pointers", program, pointers, (ctypes.c_void_p * 1)(found.data_ptr()), None)
    assert torch.equal(found, lookup(x, table))
    api.mortise_string_destroy(report)
    for kind, handle in (("program", program), ("builder", builder), ("session", session)):
        getattr(api, f"mortise_{kind}_destroy")(handle)


def test_an_op_of_its_own_in_a_file(vendors):
    """`mortise convert`, `draw`, `run` and `check` of a graph with it; only where its plugin is installed."""
    x, table = "tensor<2x3xi8>", "tensor<256xi8>"
    (vendors.folder / "lookup.mlir").write_text(f"""
        func.func @graph(%x: {x}, %t: {table}) -> {x} {{
          %0 = mortise.vendor "acme_npu.lookup"(%x, %t) {{}} : ({x}, {table}) -> {x}
          return %0 : {x}
        }}""")
    on = ("--device", "acme-npu", "--plugins", vendors.plugins("acme-npu"))
    vendors.run("mortise", "convert", "lookup.mlir", "lookup.mrtg")
    assert 'mortise.vendor "acme_npu.lookup"' in vendors.run("mortise", "convert", "lookup.mrtg", "-")
    vendors.run("mortise", "run", "lookup.mrtg", *on, "-o", "out.bin")
    assert len((vendors.folder / "out.bin").read_bytes()) == 6
    vendors.run("mortise", "draw", "lookup.mrtg", "-o", "lookup.html", *on)
    assert "acme_npu.lookup" in (vendors.folder / "lookup.html").read_text()
    assert "the op of a vendor, which only its plugin defines" in vendors.run("mortise", "check", "lookup.mrtg", *on, status=1)
    reference = ("--device", "reference", "--plugins", measure.built("lib/mortise/plugins/libmortise_reference.so"))
    said = vendors.run("mortise", "run", "lookup.mrtg", *reference, status=2)
    assert "no installed plugin declares the op 'acme_npu.lookup'" in said
    (vendors.folder / "lie.mlir").write_text((vendors.folder / "lookup.mlir").read_text().replace(
        f"{table}) -> {x}\n          return %0 : {x}", f"{table}) -> tensor<6xi8>\n          return %0 : tensor<6xi8>").replace(
        f"%t: {table}) -> {x}", f"%t: {table}) -> tensor<6xi8>"))
    assert "its plugin infers tensor<2x3xi8>, and the graph says tensor<6xi8>" in vendors.run("mortise", "run", "lie.mlir", *on, status=2)
