# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# lit passes/test, with MORTISE_BUILD naming the build folder (default build/dev).
import os

import lit.formats

root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
build = os.environ.get("MORTISE_BUILD", os.path.join(root, "build", "dev"))

config.name = "passes"
config.test_format = lit.formats.ShTest(False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(build, "passes", "test")
config.environment["PATH"] = os.pathsep.join([os.path.join(build, "bin"), "/usr/lib/llvm-22/bin", os.environ.get("PATH", "")])
