"""A child process on fixed cores that runs measurements on request: one import of torch for a whole table.

The parent sends {"call": "train_cell.ours", "arguments": {…}} as one line and gets one line back.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any, Self

from permlab.platform.errors import RunError


class Worker:
    """A child process pinned to `threads` cores, with `environment` added to its own. Workers share their cores, so
    call them in turn.
    """

    def __init__(self, threads: int = 1, environment: dict[str, str] | None = None) -> None:
        cores = sorted(os.sched_getaffinity(0))[-threads:]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed in __exit__
        counts = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "permlab.platform.bench.worker", ",".join(map(str, cores))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=os.environ | counts | (environment or {}),
        )

    def call(self, function: str, **arguments: Any) -> Any:
        """Run `module.function` of this folder in the child; returns its result."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps({"call": function, "arguments": arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            log_lines = self.log.read().strip().splitlines() or ["the worker ended without a message"]
            raise RunError(f"{function}: {log_lines[-1]}")
        answer = json.loads(line)
        if "error" in answer:
            raise RunError(answer["error"])
        return answer["result"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        if kind is not None:
            self.process.kill()
        self.process.wait()
        self.log.close()


def main() -> None:
    os.sched_setaffinity(0, map(int, sys.argv[1].split(",")))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # everything else that is printed goes to the log
    for line in sys.stdin:
        request = json.loads(line)
        module_name, function = request["call"].split(".")
        try:
            module = importlib.import_module(f"permlab.platform.bench.{module_name}")
            answer = {"result": getattr(module, function)(**request["arguments"])}
        except Exception as error:
            if not hasattr(error, "exit_code"):  # a bug: its traceback goes to the log
                raise
            answer = {"error": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
