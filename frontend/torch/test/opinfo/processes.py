# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Judges operators one after another in processes that a limit ends. An exception in the middle of a trace would not do: PyTorch and its
callers take it for an error of the operator, and what it leaves behind, such as a dispatcher that stays switched, changes later ones."""

import collections
import multiprocessing
import multiprocessing.connection
import signal

WAITING = 10  # how many times longer than its processor time a sample may take


def work(connection, judge, seconds):
    def begin(place):
        """Called before each sample. The signals have no handler: they end the process."""
        connection.send(("begin", place))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, WAITING * seconds)

    for task, known in iter(connection.recv, None):
        record = judge(task, begin, known, lambda row: connection.send(("row", row)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        connection.send(("record", record))


class Worker:
    def __init__(self, *arguments):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, task, rows):
        self.task, self.rows, self.place = task, rows, None
        self.connection.send((task, {place for place, *_ in rows}))

    def why(self, seconds):
        """Why the process ended."""
        self.process.join()
        limits = {
            -signal.SIGPROF: f"took more than {seconds} s of processor time",
            -signal.SIGALRM: f"took more than {WAITING * seconds} s",
        }
        return limits.get(self.process.exitcode, f"its process ended with {self.process.exitcode}")


def judge_all(judge, tasks, count, seconds):
    """Yields the records of `judge(task, begin, known, note)`, as they come. `judge` calls `begin(place)` before each sample but those with
    places in `known`, and `note(row)` after it; a row is [place, outcome, why]. A sample that takes longer than `seconds` of processor
    time, or whose process dies, has failed, and the rest of its task goes on in another process."""
    waiting, idle, busy = collections.deque((task, []) for task in tasks), [], {}
    try:
        while waiting or busy:
            while waiting and len(busy) < count:
                worker = idle.pop() if idle else Worker(judge, seconds)
                worker.give(*waiting.popleft())
                busy[worker.connection] = worker
            for connection in multiprocessing.connection.wait(list(busy)):
                worker = busy[connection]
                try:
                    kind, value = connection.recv()
                except (EOFError, ConnectionResetError):
                    del busy[connection]
                    why = worker.why(seconds)
                    if worker.place is None:
                        raise RuntimeError(f"{worker.task}: {why} before its first sample") from None
                    waiting.appendleft((worker.task, [*worker.rows, [worker.place, "failed", why]]))
                    continue
                if kind == "begin":
                    worker.place = value
                elif kind == "row":
                    worker.rows.append(value)
                else:
                    idle.append(busy.pop(connection))
                    yield {**value, "rows": worker.rows}
    finally:
        for worker in [*idle, *busy.values()]:
            worker.process.kill()
            worker.process.join()
