# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The vulkan plugin on Mesa's lavapipe: the kit's cases, and the validation layers where they are installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench")]
import measure

BUILD = measure.build_folder()
PLUGIN = BUILD / "lib" / "mortise" / "plugins" / "libmortise_vulkan.so"
EXPECTATIONS = ROOT / "plugins" / "vulkan" / "expectations.toml"
LAYERS = Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")
GOOD, UNUSABLE = 0, 3  # the kit's exit statuses
# The kit takes blocks that malloc keeps for llvmpipe's threads for a leak: they grow over the first hundreds of calls.
NO_CACHES = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


def judge(folder, *arguments, **environment):
    ran = subprocess.run(
        [
            BUILD / "bin" / "mortise-conformance",
            "--plugin",
            PLUGIN,
            "--expectations",
            EXPECTATIONS,
            "--report",
            folder,
            "--jobs",
            "2",
            "--quick",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=600,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("MORTISE_")}, **NO_CACHES, **environment},
    )
    if ran.returncode == UNUSABLE and "found none on this machine" in ran.stdout + ran.stderr:
        pytest.skip("no device with Vulkan: install mesa-vulkan-drivers (Debian); " + ran.stderr.strip())
    assert ran.returncode == GOOD, ran.stdout + ran.stderr
    return json.loads((folder / "report.json").read_text())


def test_without_a_driver_the_kit_says_why(tmp_path):
    nowhere = {"VK_DRIVER_FILES": "/nowhere", "VK_ICD_FILENAMES": "/nowhere"}
    command = [BUILD / "bin" / "mortise-conformance", "--plugin", PLUGIN, "--quick", "--op", "add"]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **nowhere})
    assert ran.returncode == UNUSABLE
    assert "found none on this machine" in ran.stderr and "install a driver with Vulkan" in ran.stderr


@pytest.mark.parametrize("levels", ["core", "composite,dynamic", "abi,stress"])
def test_conformance(tmp_path, levels):
    totals = judge(tmp_path, "--level", levels, "--shard", "1/6" if levels == "core" else "1/3")["totals"]
    assert totals["passed"] > (1000 if levels == "core" else 80)


def test_validation_layers_are_silent(tmp_path):
    if not LAYERS.exists():
        pytest.skip("no validation layers: install vulkan-validationlayers (Debian)")
    log = tmp_path / "validation.log"
    settings = tmp_path / "vk_layer_settings.txt"
    settings.write_text(
        "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n"
        "khronos_validation.report_flags = error,warn\n"
        f"khronos_validation.log_filename = {log}\n"
        "khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT\n"
    )
    judge(
        tmp_path / "report",
        "--op",
        "add,reduce_sum,take,concatenate,argmax,dot",
        VK_INSTANCE_LAYERS="VK_LAYER_KHRONOS_validation",
        VK_LAYER_SETTINGS_PATH=str(settings),
    )
    assert log.exists(), "the layers did not run"
    assert log.read_text() == ""
