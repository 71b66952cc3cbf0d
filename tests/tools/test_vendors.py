# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The vendors of our own, sdk/examples/{hello,acme-npu,oppack}, from the installed SDK alone: they build without a warning, conform, and
share one graph."""

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
    torch._dynamo.reset()
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
