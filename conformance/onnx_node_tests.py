# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""onnx_node_tests.py FOLDER: writes the node tests of the installed package `onnx`, as `mortise-conformance --onnx` reads them.

The package has functions that make these tests; its own `cmd_tools generate-data` writes other kinds only. Each test becomes a folder
with model.onnx and one folder for each set of inputs and outputs, as in releases that carried the data. Values that are no tensors
(sequences, optional values) are left out: the importer refuses the models that have them."""

import argparse
import sys
import warnings
from pathlib import Path

import numpy
import onnx
from onnx import numpy_helper


def write_values(folder, kind, values, infos):
    for number, (value, info) in enumerate(zip(values, infos)):
        if info.type.HasField("tensor_type"):
            if not isinstance(value, onnx.TensorProto):
                value = numpy_helper.from_array(numpy.asarray(value), info.name)
            value.name = info.name
            (folder / f"{kind}_{number}.pb").write_bytes(value.SerializeToString())


def write_case(folder, case):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for number, (inputs, outputs) in enumerate(case.data_sets):
        values = folder / f"test_data_set_{number}"
        values.mkdir(exist_ok=True)
        write_values(values, "input", inputs, case.model.graph.input)
        write_values(values, "output", outputs, case.model.graph.output)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", help="a test by its name; may be repeated")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of numpy, about the numbers that tests choose
    from onnx.backend.test.case.node import collect_testcases  # makes all tests

    cases = {case.name: case for case in collect_testcases(None)}
    unknown = set(arguments.only or ()) - set(cases)
    if unknown:
        sys.exit(f"--only: onnx {onnx.__version__} has no node test '{min(unknown)}'")
    for name in arguments.only or cases:
        write_case(arguments.folder / name, cases[name])
    print(f"{len(arguments.only or cases)} node tests of onnx {onnx.__version__} in {arguments.folder}")


if __name__ == "__main__":
    main()
