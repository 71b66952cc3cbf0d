# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mortise-conformance --onnx`: ONNX's node tests as an outside judge."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy
import onnx
import pytest
from onnx import numpy_helper
from test_conformance import FAILED, GOOD, KIT, NOTHING, PLUGINS, ROOT, USAGE, judge, run

REFERENCE, CPU = PLUGINS / "libmortise_reference.so", PLUGINS / "libmortise_cpu.so"
WRITER = ROOT / "conformance" / "onnx_node_tests.py"
# One of each family, and two that are refused.
NAMES = [
    "test_add_bcast",
    "test_reduce_sum_keepdims_example",
    "test_slice_neg_steps",
    "test_gemm_all_attributes",
    "test_layer_normalization_3d_axis1_epsilon",
    "test_gather_negative_indices",
    "test_basic_conv_with_padding",
    "test_qlinearmatmul_2D_int8_float32",
    "test_attention_4d",
    "test_nonzero_example",
    "test_cast_FLOAT_to_UINT4",
]


@pytest.fixture(scope="module")
def node_tests(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    only = [word for name in NAMES for word in ("--only", name)]
    subprocess.run([sys.executable, WRITER, folder, *only], check=True, timeout=250)
    return folder


def by_name(report):
    return {line["case"].split("/")[-2]: line for line in report["cases"]}


@pytest.mark.parametrize("plugin", [REFERENCE, CPU])
def test_node_tests(node_tests, tmp_path, plugin):
    said, report = judge(plugin, tmp_path, "--onnx", node_tests, status=GOOD)
    lines = by_name(report)
    assert set(lines) == set(NAMES)
    refused = {name for name, line in lines.items() if line["outcome"] == "refused"}
    assert refused == {"test_nonzero_example", "test_cast_FLOAT_to_UINT4"}
    assert lines["test_nonzero_example"]["why"] == "operator: NonZero is not known to the importer"
    assert lines["test_slice_neg_steps"]["bound_inputs"] == ["starts", "ends", "axes", "steps"]
    assert "1 refused: import (operator)" in said and "1 refused: import (element type)" in said
    assert "with inputs that became constants of the graph" in said
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert suites.get("tests") == str(len(NAMES)) and suites.get("skipped") == "2"
    assert ">test_add_bcast<" in (tmp_path / "report.html").read_text()


def write_test(folder, node, inputs, outputs, opset=18):
    """A test of one node with these arrays, as ONNX has its own."""

    def infos(names, arrays):
        return [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays)
        ]

    graph = onnx.helper.make_graph([node], "graph", infos(node.input, inputs), infos(node.output, outputs))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    values = folder / "test_data_set_0"
    values.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for kind, names, arrays in (("input", node.input, inputs), ("output", node.output, outputs)):
        for number, (name, array) in enumerate(zip(names, arrays)):
            (values / f"{kind}_{number}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def test_a_result_that_the_reference_does_not_give(tmp_path):
    """A failure names the reference, and says which element differs."""
    x = numpy.linspace(-3, 3, 7, dtype=numpy.float32)
    wrong = numpy.exp(x)
    wrong[3] *= numpy.float32(1 + 1e-5)
    write_test(tmp_path / "exp", onnx.helper.make_node("Exp", ["x"], ["y"]), [x], [wrong])
    said, report = judge(REFERENCE, tmp_path / "out", "--onnx", tmp_path / "exp", status=FAILED)
    [line] = report["cases"]
    assert line["kind"] == "reference" and "the interpreter is held against ONNX's results" in line["why"] and "1 of 7" in line["why"]
    repeat = said.split("repeat: mortise-conformance ")[1].splitlines()[0]
    assert "--case 'onnx/" in repeat
    again = subprocess.run(f"{KIT} {repeat}", shell=True, capture_output=True, text=True, timeout=60)
    assert again.returncode == FAILED, again.stdout + again.stderr


@pytest.mark.parametrize(("error", "status"), [(0, GOOD), (2e-6, FAILED)])
def test_results_are_judged_by_the_formula_of_onnx(tmp_path, error, status):
    """Elu near 0, as releases of ONNX before 1.23 wrote it down: exp(x) - 1 in the element type, which is off by exp's rounding."""
    x = numpy.linspace(-0.1, 0.1, 64, dtype=numpy.float32)
    exponentials = (numpy.exp(x.astype(float)) * (1 + error)).astype(numpy.float32)
    y = numpy.where(x < 0, numpy.float32(2) * (exponentials - numpy.float32(1)), x)
    assert abs(y - numpy.where(x < 0, 2 * numpy.expm1(x.astype(float)), x)).max() > 5e-8  # beyond rounding the result
    write_test(tmp_path / "elu", onnx.helper.make_node("Elu", ["x"], ["y"], alpha=2.0), [x], [y])
    _, report = judge(CPU, tmp_path / "out", "--onnx", tmp_path / "elu", status=status)
    assert status == GOOD or report["cases"][0]["kind"] == "reference"


def test_a_result_of_another_shape(tmp_path):
    x = numpy.ones((2, 3), numpy.float32)
    node = onnx.helper.make_node("Transpose", ["x"], ["y"])
    write_test(tmp_path / "transposed", node, [x], [x.T])
    model = onnx.load(tmp_path / "transposed" / "model.onnx")
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    (tmp_path / "transposed" / "model.onnx").write_bytes(model.SerializeToString())
    values = tmp_path / "transposed" / "test_data_set_0" / "output_0.pb"
    values.write_bytes(numpy_helper.from_array(x, "y").SerializeToString())
    _, report = judge(REFERENCE, tmp_path / "out", "--onnx", tmp_path / "transposed", status=FAILED)
    [line] = report["cases"]
    assert line["kind"] == "reference" and "output 0: expected f32[2, 3], the graph gives f32[3, 2]" in line["why"]


def test_what_is_wrong_in_onnx_itself(tmp_path):
    name = "test_averagepool_2d_ceil_last_window_starts_on_pad"
    subprocess.run([sys.executable, WRITER, tmp_path / "tests", "--only", name], check=True, timeout=250)
    known = ROOT / "conformance" / "onnx_expectations.toml"
    _, report = judge(REFERENCE, tmp_path / "out", "--onnx", tmp_path / "tests", "--expectations", known, status=GOOD)
    assert [(line["outcome"], line["kind"]) for line in report["cases"]] == [("failed", "reference")]


def test_a_damaged_model_is_refused(tmp_path):
    write_test(
        tmp_path / "damaged", onnx.helper.make_node("Exp", ["x"], ["y"]), [numpy.ones(2, numpy.float32)], [numpy.ones(2, numpy.float32)]
    )
    (tmp_path / "damaged" / "model.onnx").write_bytes(b"no model")
    _, report = judge(REFERENCE, tmp_path / "out", "--onnx", tmp_path, status=NOTHING)
    assert [line["why"] for line in report["cases"]] == [
        "error: expected a model in ONNX's format of at most 2 GB, found 8 bytes that are none"
    ]


def test_a_folder_without_tests(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        assert "--onnx: expected a test of ONNX" in run("--plugin", REFERENCE, "--onnx", path, status=USAGE)
