# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What must not happen on a GPU, and what has to be said when something is wrong (faults.py): memory that grows from call to call, accesses
that NVIDIA's compute-sanitizer objects to, memory that runs out, addresses that the device has not, drivers and libraries that are missing,
kernels on disk that are damaged or somebody else's. The figure `gpu-robust` runs all of them. The group of a fault is where it can be
tried: `host` anywhere, `vulkan` on any device of that plugin, `lavapipe`, `cuda`."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import faults
from faults import again, cached, data, folder, in_eager, planted, same, says

FAULTS = faults.Faults()
fault = FAULTS.fault

CALLS, WARM, SAMPLES = 10000, 1000, 10
OBJECT = 64  # bytes that an object of Python's counts as
LEAK = 32  # bytes a call: less than any object that could be forgotten
POOLS = 0.02  # of the process, by which the pages that allocators of many threads hold may still grow


def compiled(model, device: str, **options):
    import torch

    dynamic = options.pop("dynamic", False)
    return torch.compile(model, backend="mortise", dynamic=dynamic, options={"device": device, **options})


def block(width: int = 64):
    """Products, a norm, a row reduction and pointwise ops."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down, self.norm = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.LayerNorm(width)

        def forward(self, x):
            return torch.softmax(self.norm(x + self.down(torch.tanh(self.up(x)))), -1)

    torch.manual_seed(0)
    return Block().eval().requires_grad_(False)


def on(device: str, model, *inputs):
    """The model and its inputs where the device's tensors are."""
    place = "cuda" if device == "cuda" else "cpu"
    return model.to(place), *(x.to(place) for x in inputs)


# ---- Memory from call to call


class Allocated(ctypes.Structure):
    """mallinfo2 of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                                                     "fordblks", "keepcost")]


def in_use() -> int:
    """Bytes that malloc has given out in all threads, and nobody has given back, and Python's objects, whose memory is its own."""
    gc.collect()
    objects = sys.getallocatedblocks()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Allocated
    found = mallinfo()
    return found.uordblks + found.hblkhd + OBJECT * objects


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def on_gpu() -> int:
    """Bytes of the GPU that are in use, by all processes."""
    import torch

    if not torch.cuda.is_available():
        return 0
    free, total = torch.cuda.mem_get_info()
    return total - free


def flat(call, inputs: list) -> None:
    """CALLS calls, whose inputs take turns, leave nothing behind."""
    import torch

    samples, made = [], 0
    with torch.no_grad():
        for number in range(CALLS):
            if number >= WARM and (number - WARM) % ((CALLS - WARM) // SAMPLES) == 0:
                samples.append((in_use(), resident(), on_gpu()))
            call(inputs[number % len(inputs)])
            made += 1
        samples.append((in_use(), resident(), on_gpu()))
    planted(made == CALLS, f"{made} calls")
    used, pages, gpu = zip(*samples, strict=True)
    grown = (used[-1] - used[0]) / (CALLS - WARM)
    if grown > LEAK:
        raise AssertionError(f"{grown:.0f} bytes of the host a call are not given back, from {used[0]} to {used[-1]}: {used}")
    if pages[-1] > (1 + POOLS) * pages[0]:
        raise AssertionError(f"the process grew from {pages[0]} to {pages[-1]} bytes: {pages}")
    if max(gpu) > gpu[0]:
        raise AssertionError(f"the device's memory grew from {gpu[0]} to {max(gpu)} bytes: {gpu}")
    more = pages[-1] - pages[0]
    faults.SAID.append(f"{grown:.1f} bytes of the host a call, {max(gpu) - gpu[0]} of the device; the process is {more} bytes larger")


def stays_flat(device: str, shapes=((8, 64),), **options) -> None:
    model, *inputs = on(device, block(), *(data(*shape) for shape in shapes))
    call = compiled(model, device, dynamic=len(shapes) > 1, **options)
    for x in inputs:
        same(call, model, x)
    flat(call, inputs)
    same(call, model, inputs[0])


@fault("cuda", seconds=300, alone=True)
def memory_of_replayed_calls():
    """10,000 calls that are replayed as graphs, calls of libraries too."""
    stays_flat("cuda", **{"cuda.graphs": "all"})


@fault("cuda", seconds=300, alone=True)
def memory_of_calls():
    """10,000 calls as they are by default."""
    stays_flat("cuda")


@fault("cuda", seconds=300, alone=True)
def memory_of_queued_calls():
    """10,000 calls whose steps are queued one by one."""
    stays_flat("cuda", **{"cuda.graphs": "off"})


@fault("cuda", seconds=300, alone=True)
def memory_of_calls_of_many_shapes():
    """10,000 calls of one program for all shapes, with 24 shapes by turns."""
    stays_flat("cuda", [(rows, 64) for rows in range(2, 98, 4)])


@fault("vulkan", seconds=300, alone=True)
def memory_of_calls_on_vulkan():
    """10,000 calls."""
    stays_flat("vulkan")


@fault("vulkan", seconds=300, alone=True)
def memory_of_calls_of_many_shapes_on_vulkan():
    """10,000 calls of one program for all shapes, with 24 shapes by turns."""
    stays_flat("vulkan", [(rows, 64) for rows in range(2, 98, 4)])


# ---- Memory that runs out


class Large:
    """Rows of scores that lie in memory between two products."""

    def __init__(self, rows: int):
        self.rows = rows

    def __call__(self, x, w):
        import torch

        return torch.softmax(x @ w, -1) @ w.T


def large(device: str, rows: int):
    place = "cuda" if device == "cuda" else "cpu"
    return Large(rows), data(rows, 8).to(place), data(8, rows, seed=2).to(place)


@fault("cuda", alone=True)
def out_of_memory():
    """The device's memory is full as a call needs some, and is free again afterwards."""
    import torch

    model, x, w = large("cuda", 20000)
    call = compiled(model, "cuda")
    same(call, model, x[:64].contiguous(), w)  # the device has started
    torch.cuda.empty_cache()
    ballast = torch.empty(torch.cuda.mem_get_info()[0] - (256 << 20), dtype=torch.uint8, device="cuda")
    planted(torch.cuda.mem_get_info()[0] < 300 << 20, "less than 300 MB are free")
    says(lambda: call(x, w), "cuda:0", "CUDA_ERROR_OUT_OF_MEMORY", "use a smaller batch", "bytes")
    del ballast
    torch.cuda.empty_cache()
    same(call, model, x, w)


@fault("vulkan")
def more_memory_than_a_piece_may_have():
    """A call needs more than the device has, or than it gives in one piece."""
    import torch_mortise

    hardware = next(one["hardware"] for one in torch_mortise.devices() if one["kind"] == "vulkan")
    rows = 40000 if "llvmpipe" in hardware else 250000  # scores of 6 and of 250 GB
    model, x, w = large("vulkan", rows)
    says(lambda: compiled(model, "vulkan", require="100% on vulkan")(x, w), "vulkan:0", "bytes", "workspace")
    planted(True, "the size is the fault")
    again()
    model, x, w = large("vulkan", 64)
    same(compiled(model, "vulkan"), model, x, w)


# ---- Devices that are lost


@fault("cuda")
def illegal_address():
    """An input whose address the device has not; afterwards the driver refuses everything."""
    import torch

    def model(x):
        return torch.tanh(x * 2) + 1

    x = data(1 << 16).cuda()
    call = compiled(model, "cuda")
    same(call, model, x)
    nowhere = torch._C._construct_storage_from_data_pointer(0x1000_0000, x.device, x.nbytes)
    y = torch.empty(0, device="cuda").set_(nowhere, 0, x.shape, x.stride())
    call(y)
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        planted("illegal memory access" in str(error), str(error)[:200])
    for _ in range(2):
        says(lambda: call(x), "cuda:0", "CUDA_ERROR_ILLEGAL_ADDRESS", "start the process again", "compute-sanitizer")


@fault("lavapipe", "vulkan_failing_loader")
def lost_device():
    """Vulkan says in the middle of a call that the device is lost."""
    from measure import built

    os.environ["MORTISE_VULKAN_LOADER"] = str(built("lib/libvulkan_failing_loader.so"))
    model, x = block(), data(8, 64)
    call = compiled(model, "vulkan")
    same(call, model, x)
    loader = ctypes.CDLL(os.environ["MORTISE_VULKAN_LOADER"])
    loader.failingLoaderConfigure(b"fail=vkQueueSubmit:1:-4")
    loader.failingLoaderCalls.restype = ctypes.c_char_p
    for _ in range(2):
        says(lambda: call(x), "vulkan:0", "vkQueueSubmit", "VK_ERROR_DEVICE_LOST", "start the process again")
    planted(b"vkQueueSubmit" in loader.failingLoaderCalls(), "the call that fails was made")


# ---- Drivers and libraries that are missing


def without_device(device: str, *words: str) -> None:
    """The device is refused with the reason, and without a choice the cpu serves."""
    model, x = block(), data(8, 64)
    says(lambda: compiled(model, device)(x), device, *words)
    again()
    same(compiled(model, "auto"), model, x)
    placed = faults.report()["placement"]
    planted(placed.get("cpu") and not placed.get(device), str(placed))


@fault("host")
def no_cuda_driver():
    """NVIDIA's driver is not installed."""
    os.environ["MORTISE_CUDA_DRIVER"] = "/nowhere/libcuda.so.1"
    without_device("cuda", "/nowhere/libcuda.so.1", "install the GPU's driver")


@fault("host")
def no_hip():
    """HIP is not installed."""
    os.environ["MORTISE_ROCM_DRIVER"] = "/nowhere/libamdhip64.so"
    without_device("rocm", "/nowhere/libamdhip64.so", "install")


@fault("host")
def no_vulkan_loader():
    """Vulkan's loader is not installed."""
    os.environ["MORTISE_VULKAN_LOADER"] = "/nowhere/libvulkan.so.1"
    without_device("vulkan", "/nowhere/libvulkan.so.1", "install libvulkan1")


@fault("vulkan")
def loader_without_drivers():
    """Vulkan's loader finds no driver."""
    os.environ["VK_DRIVER_FILES"] = os.environ["VK_ICD_FILENAMES"] = "/nowhere/icd.json"
    without_device("vulkan", "vk", "install")


def without_library(variable: str, file: str, model, x) -> None:
    """What the library has computed runs in eager, and the reason says what to install."""
    os.environ[variable] = file
    same(compiled(model, "cuda"), model, x)
    planted(any(file in reason for reason in in_eager().values()), str(in_eager()))
    again()
    says(lambda: compiled(model, "cuda", require="100% on cuda")(x), file, "install")


@fault("cuda")
def no_library_of_products():
    """cuBLASLt is not installed."""
    without_library("MORTISE_CUDA_CUBLASLT", "/nowhere/libcublasLt.so.13", *on("cuda", block(), data(256, 64)))


@fault("cuda")
def no_library_of_convolutions():
    """cuDNN is not installed."""
    from torch import nn

    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval().requires_grad_(False)
    without_library("MORTISE_CUDA_CUDNN", "/nowhere/libcudnn.so.9", *on("cuda", model, data(2, 3, 16, 16)))


# ---- Kernels on disk


def kept_by_another_process(device: str) -> list[Path]:
    """Files with the kernels of block(), of which this process knows nothing yet."""
    place = folder() / "kernels"
    os.environ["MORTISE_KERNEL_CACHE"] = str(place)
    subprocess.run([sys.executable, str(Path(__file__).resolve()), "--fill", device], check=True, capture_output=True)
    files = sorted(place.glob("*.kernel"))
    planted(files, "a kernel was kept")
    return files


def fill(device: str) -> int:
    model, x = on(device, block(), data(8, 64))
    same(compiled(model, device), model, x)
    return 0


def forged(file: Path, change) -> None:
    """The file with other content, and the checksum that goes with it (runtime/sealed.cpp)."""
    whole = file.read_bytes()
    content = change(whole[24:])
    planted(content != whole[24:], "the content was changed")
    file.write_bytes(whole[:12] + struct.pack("<I", zlib.crc32(content)) + struct.pack("<Q", len(content)) + content)


def taken_from_disk(device: str) -> None:
    files = kept_by_another_process(device)
    model, x = on(device, block(), data(8, 64))
    same(compiled(model, device), model, x)
    planted(files and "hit" in cached(), str(cached()))


@fault("vulkan")
def kernels_of_vulkan_from_disk():
    """Nothing is wrong: kernels and pipelines are those that another process has kept."""
    taken_from_disk("vulkan")


@fault("cuda")
def kernels_of_cuda_from_disk():
    """Nothing is wrong: kernels are those that another process has kept."""
    taken_from_disk("cuda")


def compiled_again(device: str, change, *words: str) -> None:
    for file in kept_by_another_process(device):
        change(file)
    model, x = on(device, block(), data(8, 64))
    same(compiled(model, device), model, x)
    said = [state for state in cached() if all(word in state for word in words)]
    planted(said, str(cached()))
    faults.SAID.append(said[0][:300])


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for at in range(40, len(content), max(1, len(content) // 16)):
        content[at] ^= 1
    file.write_bytes(content)


@fault("vulkan")
def damaged_pipelines():
    """Bits of the pipelines on disk are flipped."""
    compiled_again("vulkan", flipped, "damaged")


@fault("vulkan")
def pipelines_of_another_driver():
    """The pipelines on disk are another vendor's, and the file's checksum is right."""

    def change(content: bytes) -> bytes:
        header = struct.pack("<II", 32, 1)  # its bytes, its version
        found = [match.start() for match in re.finditer(re.escape(header), content)]
        planted(found, "the file has pipelines")
        changed = bytearray(content)
        for at in found:
            changed[at + 8] ^= 0x55  # of the vendor
        return bytes(changed)

    compiled_again("vulkan", lambda file: forged(file, change), "vulkan:0", "compiled again")


@fault("vulkan")
def pipelines_that_end_early():
    """A file on disk ends within its kernels, and its checksum is right."""
    compiled_again("vulkan", lambda file: forged(file, lambda content: content[:-100]), "saved kernels", "damaged")


@fault("cuda")
def damaged_kernels_of_cuda():
    """Bits of the kernels on disk are flipped."""
    compiled_again("cuda", flipped, "damaged")


@fault("cuda")
def code_that_is_none():
    """The code on disk is no PTX, and the file's checksum is right."""
    compiled_again("cuda", lambda file: forged(file, lambda content: content.replace(b".visible .entry", b".visible .wrong")),
                   "kernel_load", "CUDA_ERROR")


# ---- compute-sanitizer


def sanitized(tool: str, command: list[str]) -> str:
    """What the tool finds in the program and its children, which have to end well; empty where it finds nothing."""
    log = folder() / "log"
    ran = subprocess.run(["compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", "86", "--log-file",
                          f"{log}.%p", *command], capture_output=True, text=True, check=False)
    texts = [file.read_text() for file in sorted(log.parent.glob("log.*"))]
    summaries = [line for text in texts for line in text.splitlines() if "SUMMARY" in line]
    found = [line for line in summaries if not re.search(r"SUMMARY: 0 (errors|hazards)\b", line)]
    if found or ran.returncode or not summaries:
        words = "\n".join(line for text in texts for line in text.splitlines()[:40])
        return f"exit status {ran.returncode}; {found[:2]}; {words[:1200]}; {ran.stdout[-300:]}{ran.stderr[-300:]}"
    return ""


# Kernels in which the tools have to find something, by 64 threads: all write one word of the block's memory and read it, and nine wait
# for eight of a subgroup, of which one is none. (synccheck 2025.3 says nothing of a block's barrier that a part of a subgroup waits at.)
PLANTS = {"racecheck": "st.shared.u32 [word], %r0; ld.shared.u32 %r1, [word]; st.global.u32 [%rd0], %r1;",
          "synccheck": "setp.lt.u32 %p0, %r0, 9; @%p0 bar.warp.sync 0xff;"}


def ptx(body: str) -> str:
    return f""".version 7.0
.target sm_75
.address_size 64
.shared .align 4 .b32 word;
.visible .entry planted(.param .u64 out) {{
.reg .b32 %r<2>; .reg .b64 %rd<1>; .reg .pred %p<1>;
ld.param.u64 %rd0, [out]; cvta.to.global.u64 %rd0, %rd0; mov.u32 %r0, %tid.x;
{body}
ret;
}}
"""


def launch(name: str) -> int:
    """Runs a planted kernel by the driver."""
    import torch

    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    driver, module, kernel = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    address = ctypes.c_uint64(out.data_ptr())
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(address))
    for status in (driver.cuModuleLoadData(ctypes.byref(module), ptx(PLANTS[name]).encode()),
                   driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"planted"),
                   driver.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, None, arguments, None)):
        if status:
            raise RuntimeError(f"the planted kernel does not run: the driver says {status}")
    torch.cuda.synchronize()
    return 0


def finds(tool: str, what: str, *arguments: str) -> None:
    """The tool says this of what is planted in a program of this file."""
    found = sanitized(tool, [sys.executable, str(Path(__file__).resolve()), *arguments])
    planted(re.search(what, found), f"{tool} says nothing of {what}: {found[:300]}")


def clean(tool: str, shard: str) -> None:
    """Cases of the kit, whose tensors have memory of their own, and networks."""
    from measure import build_folder

    build = build_folder()
    kit = [str(build / "bin" / "mortise-conformance"), "--plugin", str(build / "lib/mortise/plugins/libmortise_cuda.so"), "--level",
           "core,composite", "--quick", "--shard", shard, "--jobs", "8", "--limit", "300", "--memory", str(1 << 46), "--seed", "1",
           "--expectations", str(build.parents[1] / "plugins/cuda/expectations.toml")]
    network = [sys.executable, str(Path(__file__).resolve()), "--networks"]
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # or accesses beside a tensor would hit another one
    for command in (kit, network):
        if problem := sanitized(tool, command):
            raise AssertionError(f"{Path(command[0]).name}: {problem}")
    faults.SAID.append(f"{tool}: no errors in part {shard} of the kit's core and composite, and in three networks")


def run_networks() -> int:
    """Attention, products, norms and convolutions in bf16, queued and replayed."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Attention(nn.Module):
        def __init__(self, width=128):
            super().__init__()
            self.qkv, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 4, -1).permute(2, 0, 3, 1, 4)
            return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width))

    torch.manual_seed(0)
    images = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(16, 8, 1))
    for model, x in ((Attention(), data(2, 77, 128)), (Attention(), data(1, 1, 128)), (images, data(2, 3, 33, 31))):
        model, x = model.cuda().bfloat16().eval().requires_grad_(False), x.cuda().bfloat16()
        call = compiled(model, "cuda", require="100% on cuda")
        with torch.no_grad():
            expected = model.float()(x.float())
            model.bfloat16()
            for _ in range(4):
                torch.testing.assert_close(call(x).float(), expected, rtol=0.05, atol=0.05)
    return 0


@fault("cuda", seconds=560)
def memcheck():
    """Accesses outside of any tensor."""
    finds("memcheck", "Invalid __global__ read", "illegal-address")
    clean("memcheck", "1/24")


@fault("cuda", seconds=560)
def racecheck():
    """Accesses to a block's memory that no barrier orders."""
    finds("racecheck", "SUMMARY: [1-9]", "--launch", "racecheck")
    clean("racecheck", "7/24")


@fault("cuda", seconds=560)
def synccheck():
    """Barriers that not all threads reach."""
    finds("synccheck", "SUMMARY: [1-9]", "--launch", "synccheck")
    clean("synccheck", "13/24")


if __name__ == "__main__":
    if sys.argv[1] == "--fill":
        sys.exit(fill(sys.argv[2]))
    if sys.argv[1] == "--launch":
        sys.exit(launch(sys.argv[2]))
    if sys.argv[1] == "--networks":
        sys.exit(run_networks())
    sys.exit(faults.main(FAULTS, sys.argv[1]))
