"""Memory of processes as Linux counts it: shared pages are shared, not counted once a process."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path


def rollup(pid: int) -> dict[str, float]:
    """PSS and private memory of a process, in MB."""
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size, *_ = line.split()
        fields[name.rstrip(":")] = int(size) / 1000
    return {"pss": fields["Pss"], "private": fields["Private_Clean"] + fields["Private_Dirty"]}


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(inner for child in children for inner in _tree(int(child)))]


def peak_of_tree(command: list[str]) -> tuple[float, float]:
    """Run a command; seconds, and the largest sum of PSS in MB over it and its children, seen every 50 ms."""
    peak = 0.0
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    finished = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not finished.wait(0.05):
            try:
                peak = max(peak, sum(rollup(pid)["pss"] for pid in _tree(process.pid)))
            except (OSError, ValueError):  # a child ended while it was looked at
                continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - start
    finished.set()
    watcher.join()
    if code:
        raise subprocess.CalledProcessError(code, command)
    return seconds, peak


READER = """
import sys, time, json
import permlab.platform.bench.memory as memory, os
from permlab.datasets.store import GraphStore
before = memory.rollup(os.getpid())["private"]
start = time.perf_counter()
store = GraphStore.open(sys.argv[1])
store.y, store.az
opened = time.perf_counter() - start
total = 0.0
for name in ("node_ptr", "a_ptr", "a_column", "a_value", "az", "y", "graph_id", "group"):
    total += float(getattr(store, name).sum())
for shard in store.shards:
    total += float(shard.x.sum()) + float(shard.src.sum()) + float(shard.dst.sum())
print(opened, flush=True)
input()
print(before, memory.rollup(os.getpid())["private"], flush=True)
input()
"""


def readers(name: str, count: int) -> list[tuple[float, float]]:
    """`count` processes at once that each read every byte; (seconds to open, MB of private memory added) each."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", READER, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        for _ in range(count)
    ]

    def ask(line: bool) -> list[str]:
        if line:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
        return [process.stdout.readline() for process in processes if process.stdout is not None]

    opened = [float(text) for text in ask(False)]
    private = [tuple(map(float, text.split())) for text in ask(True)]  # all have read, none has left
    ask(True)
    for process in processes:
        process.wait()
    return [(seconds, after - before) for seconds, (before, after) in zip(opened, private, strict=True)]
