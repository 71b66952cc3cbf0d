# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A pool for the memory of large results, which reuses it once PyTorch holds no reference to it: a fresh allocation costs a page fault for
each 4 KiB that a program writes. Decision 0023 says why the pool keeps PyTorch's own storages.

A block is a storage that PyTorch's allocator made. The pool hands it out again when only the pool refers to it, so tensors, views and
storages in a user's hands behave as if the pool did not exist. Only results of exactly the same size share a block."""

import collections
import functools
import itertools
import os
import sys
import threading
import weakref

import torch

from . import _library

SMALLEST = 1 << 20  # bytes of the smallest pooled result; smaller ones come straight from PyTorch
TRIES = 8  # blocks of one size that a request checks, the oldest first
UNUSED = 512  # requests after which a block that was not handed out again is dropped
LOOK = 32  # requests between two checks of the system's memory


def _fresh(size, stride, dtype):
    return torch.empty_strided(size, stride, dtype=dtype, device="cpu")


# (size, stride, dtype) -> an uninitialised tensor in host memory. Inductor's way passes no dispatcher.
fresh = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", _fresh)


class Block:
    __slots__ = ("storage", "address", "bytes", "request")

    def __init__(self, storage):
        self.storage, self.address, self.bytes = storage, storage.data_ptr(), storage.nbytes()
        self.request = 0  # number of the request that it was last handed out for

    def references(self):
        """Counts of references: to the storage's Python object, to the storage itself, and weak ones that could become strong again."""
        storage = self.storage
        return sys.getrefcount(storage), torch._C._storage_Use_Count(storage._cdata), weakref.getweakrefcount(storage)

    def is_idle(self):
        return self.references() == idle_references()

    def is_intact(self):
        """Whether the block still has the memory that PyTorch's allocator gave it; resize_ and share_memory_ replace the memory."""
        storage = self.storage
        return storage.data_ptr() == self.address and storage.nbytes() == self.bytes and not storage.is_shared()


@functools.cache
def idle_references():
    """The result of Block.references for a storage that only its block holds."""
    return Block(torch.empty(1, device="cpu").untyped_storage()).references()


def available_bytes():
    """The memory that the system, or the container, can still give; None if it does not say."""
    found = []
    try:
        with open("/proc/meminfo") as file:
            found += [int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")]
    except OSError:
        pass
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            with open(f"/sys/fs/cgroup/{limit}") as most, open(f"/sys/fs/cgroup/{used}") as now:
                found.append(int(most.read()) - int(now.read()))
        except (OSError, ValueError):  # no such group, or no limit ("max")
            pass
    return min(found) if found else None


class Pool:
    """Safe from any thread. Blocks, including those in use, never exceed `limit` bytes, nor a quarter of the memory that the system still
    has."""

    def __init__(self, available=available_bytes):
        self.available = available
        self.clear()

    def clear(self):
        self.lock = threading.RLock()  # reentrant, because a finaliser may run a compiled function in here
        self.blocks = collections.OrderedDict()  # id -> block, in order of last use, the oldest first
        self.sizes = {}  # bytes -> {id: block}, in the same order
        self.bytes = self.hits = self.misses = 0
        self.ceiling = None  # from the last check of the system's memory

    def empty(self, bytes, limit, size, stride, dtype):
        """Like `fresh`. `bytes`: the size of the result without gaps; `limit`: output_pool_bytes."""
        with self.lock:
            block = self.take(bytes)
        # The block, if any, belongs to this call alone, because PyTorch may let other threads run while it makes a tensor.
        if block is None:
            tensor = fresh(size, stride, dtype)
            block = Block(tensor.untyped_storage())
        else:
            tensor = torch.empty(0, dtype=dtype, device="cpu").set_(block.storage, 0, size, stride)
        with self.lock:
            self.keep(block, limit)
        return tensor

    def take(self, bytes):
        """Removes an idle block of this size from the pool and returns it, or None."""
        for block in list(itertools.islice(self.sizes.get(bytes, {}).values(), TRIES)):
            if not block.is_intact():
                self.drop(block)
            elif block.is_idle():
                self.drop(block)
                self.hits += 1
                return block
        self.misses += 1
        return None

    def keep(self, block, limit):
        request = block.request = self.hits + self.misses
        if self.ceiling is None or request % LOOK == 0:
            available = self.available()
            self.ceiling = sys.maxsize if available is None else max(0, available // 4)
        self.blocks[id(block)] = block
        self.sizes.setdefault(block.bytes, {})[id(block)] = block
        self.bytes += block.bytes
        while self.blocks:
            oldest = next(iter(self.blocks.values()))
            if self.bytes <= min(limit, self.ceiling) and request - oldest.request < UNUSED:
                break
            self.drop(oldest)

    def drop(self, block):
        """Drops a block. Its memory is freed now if it is idle, else by its last user."""
        del self.blocks[id(block)]
        same = self.sizes[block.bytes]
        del same[id(block)]
        if not same:
            del self.sizes[block.bytes]
        self.bytes -= block.bytes

    def holds(self, storage):
        """Whether the storage is one of a block."""
        with self.lock:
            return any([block.storage is storage for block in self.sizes.get(storage.nbytes(), {}).values()])

    def idle(self):
        return sum([block.bytes for block in list(self.blocks.values()) if block.is_idle()])

    def release(self):
        with self.lock:
            released = self.idle()
            while self.blocks:
                self.drop(next(iter(self.blocks.values())))
            return released

    def report(self):
        with self.lock:
            return {
                "output_pool_bytes": self.bytes,
                "output_pool_idle_bytes": self.idle(),
                "output_pool_blocks": len(self.blocks),
                "output_pool_hits": self.hits,
                "output_pool_misses": self.misses,
            }


pool = Pool()
os.register_at_fork(after_in_child=pool.clear)  # another thread may have held the lock


@functools.cache
def limit(options):
    """The value of output_pool_bytes for the session of these options."""
    return int(_library.setting(options, "output_pool_bytes"))


def allocator(bytes, options):
    """The function that makes the tensor for a result of so many bytes in host memory, of (size, stride, dtype)."""
    if bytes < SMALLEST or bytes > limit(options):
        return fresh
    return functools.partial(pool.empty, bytes, limit(options))


def release_memory():
    """Frees the memory that torch_mortise keeps for the results of later calls, and returns how many bytes that was. Results in use keep
    their memory. May be called from any thread at any time. Later calls fill the pool again, up to the option output_pool_bytes."""
    return pool.release()
