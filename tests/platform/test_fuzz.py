"""Random calls over all verbs: whatever is typed, no traceback, no hang, and an exit code that means something.

A few in every test run. More of them, or each in its own process with real sweeps among them:

    PERMLAB_FUZZ_CALLS=1000 PERMLAB_FUZZ_SEED=3 python -m pytest tests/platform/test_fuzz.py
    python -m tests.platform.test_fuzz 200 3    # calls, seed
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from permlab.platform.cli import VERBS
from tests.platform.fuzzing import Grammar, calls, prepare

CALLS, SEED = int(os.environ.get("PERMLAB_FUZZ_CALLS", "50")), int(os.environ.get("PERMLAB_FUZZ_SEED", "0"))
LONGEST = 30  # seconds of CPU that a call may take, in its own process
DEAD = 600  # seconds after which a call counts as hung, even on a busy machine; the slowest computes for 10
MOST_MEMORY = 12 << 30  # bytes of address space, in its own process
CODES = {0, 1, 2, 130}


def complaint(code: int, out: str, err: str, seconds: float = 0.0) -> str:
    """What a call did wrong; empty if nothing."""
    if code not in CODES:
        return f"exit code {code}"
    if "Traceback" in out + err:
        return "a traceback"
    if code == 2 and err.strip().count("\n"):
        return "more than one line"
    if code and not (out + err).strip():
        return "fails without a word"
    return f"{seconds:.0f} seconds" if seconds > LONGEST else ""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name, value in prepare(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


class TooLong(BaseException):
    """Not an Exception: nothing on the way catches it."""


def test_the_grammar_knows_every_verb() -> None:
    assert not [verb for verb in VERBS if not hasattr(Grammar, verb)]


def test_random_calls_end_well(permlab, here: Path) -> None:
    def give_up(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, give_up)
    bad: list[str] = []
    try:
        for words in calls(SEED, CALLS, here):
            signal.alarm(DEAD)
            try:
                wrong = complaint(*permlab(*words))
            except (Exception, TooLong) as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                bad.append(f"{wrong[:300]}: permlab {' '.join(repr(word[:200]) for word in words)}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert not bad, "\n".join(bad)


def main(count: int, seed: int) -> int:
    """The same, each call in its own process, with real sweeps among them."""
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        own = prepare(Path(folder))
        for words in calls(seed, count, Path(folder), real=True):
            command = [sys.executable, "-m", "permlab.platform.cli", *words]
            started = _computed()
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=os.environ | own,
                    capture_output=True,
                    timeout=DEAD,
                    preexec_fn=_limit,
                )
                out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
                wrong = complaint(done.returncode, out, err, _computed() - started)
            except subprocess.TimeoutExpired:
                wrong, err = "no end", ""
            if wrong:
                bad += 1
                sys.stdout.write(f"{wrong}: {words}\n{err[-500:]}\n")
    sys.stdout.write(f"{count} calls, seed {seed}: {bad} bad\n")
    return 1 if bad else 0


def _computed() -> float:
    """Seconds of CPU that all calls have taken so far, with their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
