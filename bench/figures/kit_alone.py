# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conformance kit as a lab gets it: the SDK's tarball, unpacked in an empty folder. The plugins are built elsewhere, and copied to
another empty folder with their manifests. The kit runs in an empty environment, with a PATH that has nothing, and judges each of: the
template and the pointwise example (which any compiler builds against the SDK), `strict` (a device with memory of its own) and `cpu`. A row
has passed when the report says good, cases were computed, and the reports are all there. Controls, which have to fail: the template with a
wrong product, and a library that is cut short. `libraries`: what the kit is linked with beyond the run times of C, C++ and OpenMP and zlib;
none is due."""

MEASURES = "the conformance kit alone, from the SDK's tarball, without compiler, checkout or Python: plugins judged"
NEEDS = "cpu"
MINUTES = 3

# The run times of C, C++ and OpenMP (whose pool is the process's own), and zlib: what Linux systems with compiled programs have.
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libgomp.so.1", "libz.so.1"}
LEVELS = "core,composite,quantised,training,models"
FAULT = ("a[i] * b[i]", "a[i] * b[i] + 1")


def build_plugins(sdk, folder) -> dict:
    """{name: library} of the plugins, in folders that hold nothing else."""
    import shutil
    from pathlib import Path

    import measure as clocks
    from vendors import Vendor

    vendor = Vendor(folder / "vendor")
    vendor.folder.mkdir()
    vendor.run("tar", "-xzf", sdk)
    vendor.run("mortise", "plugin", "new", "template", "--lang", "c")
    shutil.copytree(vendor.folder / "template", vendor.folder / "wrong")
    source = vendor.folder / "wrong" / "plugin.c"
    text = source.read_text()
    if FAULT[0] not in text:
        raise RuntimeError(f"the template has no {FAULT[0]!r}")
    source.write_text(text.replace(*FAULT))
    shutil.copytree(clocks.ROOT / "sdk" / "examples" / "pointwise", vendor.folder / "pointwise")
    for name in ("template", "wrong", "pointwise"):
        vendor.run("cmake", "-S", name, "-B", f"{name}/build", f"-DCMAKE_PREFIX_PATH={vendor.folder / 'mortise-sdk'}")
        vendor.run("cmake", "--build", f"{name}/build")
    clocks.make("mortise_plugin_strict")
    build = clocks.build_folder()
    built = {name: next((vendor.folder / name / "build").rglob("lib*.so")) for name in ("template", "wrong", "pointwise")}
    built |= {"strict": build / "lib" / "mortise" / "test-plugins" / "libstrict.so",
              "cpu": build / "lib" / "mortise" / "plugins" / "libmortise_cpu.so"}
    made = {}
    for name, library in built.items():
        (to := Path(folder, "plugins", name)).mkdir(parents=True)
        shutil.copy(library, to)
        shutil.copy(library.with_suffix(".toml"), to)
        made[name] = to / library.name
    # A library that is cut short.
    shutil.copytree(folder / "plugins" / "template", folder / "plugins" / "short")
    made["short"] = folder / "plugins" / "short" / made["template"].name
    made["short"].write_bytes(made["short"].read_bytes()[:3000])
    return made


def measure(arguments: list[str]) -> dict:
    import subprocess
    import tempfile
    from pathlib import Path

    import kit
    from measure import progress
    from vendors import tarball

    rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdk = tarball(folder)
        plugins = build_plugins(sdk, folder)
        (lab := folder / "lab").mkdir()
        subprocess.run(["tar", "-xzf", sdk, "-C", lab], check=True)
        program = lab / "mortise-sdk" / "bin" / "mortise-conformance"
        needed = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
        libraries = sorted({line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line} - SYSTEM)
        (folder / "nothing").mkdir()
        environment = {"PATH": str(folder / "nothing"), "HOME": str(folder / "nothing")}
        expectations = {"cpu": ("--expectations", kit.CPU_EXPECTATIONS)}
        wanted = dict.fromkeys(("template", "pointwise", "strict", "cpu"), kit.GOOD) | {"wrong": kit.FAILED, "short": kit.UNUSABLE}
        words = {kit.GOOD: "good", kit.FAILED: "failed", kit.UNUSABLE: "unusable"}
        for name, status in wanted.items():
            (run := folder / "runs" / name).mkdir(parents=True)
            row = rows[name] = {"expected": words[status]}
            try:
                report = kit.run(plugins[name], "--quick", "--level", LEVELS, *expectations.get(name, ()), kit=program, folder=run,
                                 environment=environment, statuses={status} - {kit.UNUSABLE})
            except RuntimeError as error:
                row["passed"] = status == kit.UNUSABLE and f"exit status {kit.UNUSABLE}" in str(error)
                if not row["passed"]:
                    row["problem"] = str(error)[-600:]
            else:
                files = {"report.json", "report.html", "junit.xml"} <= {file.name for file in (run / "out").iterdir()}
                row |= {"cases": len(report["cases"]), "executed": kit.executed(report), "seconds": report["run"]["seconds"],
                        "seed": report["run"]["seed"], "passed": kit.executed(report) > 0 and files}
                if not row["passed"]:
                    row["problem"] = f"{row['executed']} cases were computed, and the reports are {'' if files else 'not '}all there"
            progress(f"{name}: {row}")
    if libraries:
        rows["libraries"] = {"passed": False, "problem": f"the kit needs {', '.join(libraries)}"}
    failed = sum(not row["passed"] for row in rows.values())
    return {"passed": sum(row["passed"] for row in rows.values()), "failed": failed, "rows": rows, "libraries": libraries}
