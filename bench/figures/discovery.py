# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What it costs to have many plugins installed: a folder of 50, and a session in a fresh process that asks for none of their devices. `ms`:
median time of mortise_session_create over the processes; `loaded`: libraries of these plugins in the process's memory map behind it. Two
controls: one device asked for loads one library, and a description of everything loads all of them."""

from figures import ArgumentError

MEASURES = "a session beside 50 installed plugins: milliseconds, and libraries that it loads"
NEEDS = "cpu"
MINUTES = 1

PLUGINS, PROCESSES, MOST_MS = 50, 21, 5
# Run in a process of its own. Arguments: the C API's library, a device to ask for or "-", whether to describe everything.
PROBE = """
import ctypes, json, sys, time
library = ctypes.CDLL(sys.argv[1])
library.mortise_status_message.restype = ctypes.c_char_p
def done(status):
    if status:
        sys.exit(library.mortise_status_message(ctypes.c_void_p(status)).decode())
for name in ("session_create", "session_device", "session_describe"):
    getattr(library, "mortise_" + name).restype = ctypes.c_void_p
session, device, text = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
begin = time.perf_counter()
status = library.mortise_session_create(None, ctypes.c_size_t(0), ctypes.byref(session))
ms = (time.perf_counter() - begin) * 1e3
done(status)
if sys.argv[2] != "-":
    done(library.mortise_session_device(session, sys.argv[2].encode(), ctypes.byref(device)))
if sys.argv[3] == "describe":
    done(library.mortise_session_describe(session, ctypes.byref(text)))
maps = open("/proc/self/maps").read()
loaded = {line.split()[-1] for line in maps.splitlines() if "/libvendor" in line}
print(json.dumps({"ms": ms, "loaded": len(loaded)}))
"""


def measure(arguments: list[str]) -> dict:
    import json
    import os
    import statistics
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    from bad_plugins import FIXTURES, MANIFEST, compile_c
    from measure import build_folder, progress

    if arguments:
        raise ArgumentError(f"expected no arguments, found {' '.join(arguments)}")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(PLUGINS):
            name = f"vendor{number}"
            compile_c(FIXTURES / "fixture.c", Path(folder, f"lib{name}.so"), f'-DNAME="{name}"', f'-DKIND="{name}"', "-DTWINS=1")
            text = MANIFEST.replace('"acme"', f'"{name}"').replace("opset = 3", "opset = 1").replace("Acme Inc.", "tests")
            Path(folder, f"lib{name}.toml").write_text(
                text.replace("1.0.0", "1.0").replace("devices =", f'automatic = ["{name}"]\ndevices ='))
        progress(f"{PLUGINS} plugins in {folder}")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_")}
        environment = kept | {"MORTISE_PLUGIN_PATH": folder, "HOME": folder, "MORTISE_LOG_LEVEL": "error"}

        def run(device: str, describe: str = "") -> dict:
            library = build_folder() / "lib" / "libmortise.so"
            ran = subprocess.run([sys.executable, "-c", PROBE, str(library), device, describe], env=environment, cwd=folder,
                                 capture_output=True, text=True, check=False)
            if ran.returncode:
                raise RuntimeError(ran.stderr.strip())
            return json.loads(ran.stdout)

        rows = [run("-") for _ in range(PROCESSES)]
        one, every = run("vendor7")["loaded"], run("-", "describe")["loaded"]
    times, loaded = [row["ms"] for row in rows], max(row["loaded"] for row in rows)
    return {"ms": statistics.median(times), "ms_most": max(times), "loaded": loaded, "plugins": PLUGINS, "processes": PROCESSES,
            "loaded_for_one_device": one, "loaded_to_describe": every,
            "passed": statistics.median(times) < MOST_MS and loaded == 0 and one == 1 and every == PLUGINS}
