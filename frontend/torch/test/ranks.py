# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two processes over gloo that run the tests decorated with `on_ranks`, each the same function with its rank. They serve one test after the
other, because a process needs seconds to start. What fails or takes too long ends both, and the next test gets new ones."""

import datetime
import functools
import importlib
import inspect
import multiprocessing
import os
import tempfile
import time
import traceback

WORLD = 2
COLLECTIVE_S = 30  # after which gloo gives up waiting for the other rank
TEST_S = 120  # for one test, on a machine that does other work as well


def serve(rank, store, pipe, environment):
    """The life of a rank: runs (module, function, arguments) from the pipe, and answers with the traceback of what was raised, or None."""
    os.environ.update(environment, GLOO_SOCKET_IFNAME="lo")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=COLLECTIVE_S)
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank, world_size=WORLD, timeout=timeout)
    import torch_mortise

    while (job := pipe.recv()) is not None:
        module, name, arguments = job
        torch._dynamo.reset()
        torch_mortise.reset()
        torch.manual_seed(0)
        try:
            getattr(importlib.import_module(module), name).on_rank(rank=rank, **arguments)
            pipe.send(None)
        except BaseException:
            pipe.send(traceback.format_exc())
    dist.destroy_process_group()


class Ranks:
    """The processes. `environment`: variables that they get."""

    def __init__(self, **environment):
        self.environment, self.processes = environment, []

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.folder = tempfile.TemporaryDirectory()
        ends = [context.Pipe() for _ in range(WORLD)]
        self.pipes = [mine for mine, _ in ends]
        self.processes = [
            context.Process(target=serve, args=(rank, f"{self.folder.name}/store", theirs, self.environment), daemon=True)
            for rank, (_, theirs) in enumerate(ends)
        ]
        for process, (_, theirs) in zip(self.processes, ends, strict=True):
            process.start()
            theirs.close()  # so that the end of the process is the end of the pipe

    def run(self, module, name, arguments):
        """What each rank answers: None, a traceback, or the exit status of a process that ended."""
        if not self.processes or not all(process.is_alive() for process in self.processes):
            self.stop()
            self.start()
        for pipe in self.pipes:
            pipe.send((module, name, arguments))
        deadline, answers = time.monotonic() + TEST_S, []
        for process, pipe in zip(self.processes, self.pipes, strict=True):
            try:
                if not pipe.poll(max(deadline - time.monotonic(), 0)):
                    answers.append(f"no answer after {TEST_S} s")
                    continue
                answers.append(pipe.recv())
            except EOFError:
                process.join(5)
                answers.append(f"the process ended with {process.exitcode}")
        if any(answers):
            self.stop()
        return answers

    def stop(self):
        for process in self.processes:
            process.kill()
            process.join()
        if self.processes:
            self.folder.cleanup()
        self.processes = []

    def close(self):
        """Ends processes that work, in order, so that they leave their group."""
        for pipe in self.pipes if self.processes else ():
            pipe.send(None)
        for process in self.processes:
            process.join(10)
        self.stop()


def on_ranks(function):
    """Makes a test of function(rank, ...), which every rank of the fixture `ranks` runs. An error on any of them fails it."""

    def test(ranks, **arguments):
        answers = ranks.run(function.__module__, function.__name__, arguments)
        assert not any(answers), "\n".join(f"rank {rank}: {answer}" for rank, answer in enumerate(answers) if answer)

    functools.update_wrapper(test, function)
    others = [p for name, p in inspect.signature(function).parameters.items() if name != "rank"]
    test.__signature__ = inspect.Signature([inspect.Parameter("ranks", inspect.Parameter.POSITIONAL_OR_KEYWORD), *others])
    test.on_rank = function
    return test
