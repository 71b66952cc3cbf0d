# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Run by ctest, which passes the folders: lit -Dbin=build/dev/bin -Dllvm=/usr/lib/llvm-22/bin ir/test
import os

import lit.formats

config.name = "ir"
config.test_format = lit.formats.ShTest(False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(lit_config.params["bin"], "..", "ir", "test")
config.environment["PATH"] = os.pathsep.join([lit_config.params["bin"], lit_config.params["llvm"], os.environ["PATH"]])
