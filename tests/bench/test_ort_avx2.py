# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A library that asks for AVX-512's registers does not find them after ort_avx2.patch."""

import ctypes
import shutil
import subprocess

import ort_avx2
import pytest

SOURCE = """
#include <stdint.h>
uint32_t saved(void) { uint32_t low, high; __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); return low; }
uint32_t same_bytes(void) { return 0xd0010f; }
"""


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_xgetbv_is_overwritten_and_equal_bytes_are_not(tmp_path):
    library = tmp_path / "libasks.so"
    (tmp_path / "asks.c").write_text(SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, tmp_path / "asks.c"], check=True)
    assert ort_avx2.XGETBV in library.read_bytes()
    assert [ort_avx2.patch(library), ort_avx2.patch(library)] == [1, 0]  # before it is loaded: a mapped file must not change
    asks = ctypes.CDLL(str(library))
    assert asks.saved() & 0xFF == 7
    assert asks.same_bytes() == 0xD0010F
