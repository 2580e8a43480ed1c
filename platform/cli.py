"""The command line: `permlab VERB …`. One module per verb, in `platform/commands/`, imported only when called.

Exit codes: 0 done, 1 a run failed, 2 the call was wrong.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from permlab.datasets.errors import DataError
from permlab.platform.display.console import err, out
from permlab.platform.errors import ConfigError, RunError, RunStopped, StopNow
from permlab.platform.files.secrets import masked_traceback
from permlab.platform.large_imports import large_imports
from permlab.readouts.errors import ReadoutError
from permlab.tasks.errors import BackboneError, ObjectiveError

VERBS = {
    "data": "build, inspect and verify data sets",
    "readouts": "list the readouts and what each one keeps",
    "certify": "search for what a readout loses; decide whether a key is universal",
    "train": "train one cell: a data set, a readout, a width, a seed",
    "sweep": "run a grid of cells on Ray",
    "tune": "search for good settings of every readout, on training data alone",
    "reproduce": "search for the recipe behind the paper's training columns",
    "reproduction": "write the page that compares finished sweeps with the paper's 336 numbers",
    "status": "show the state of sweeps and tunings",
    "report": "tables, figures and tests of a sweep, next to the paper's",
    "ui": "start the MLflow dashboard",
    "doctor": "check what is installed and reachable, and say how to fix what is not",
    "predict": "score a data set with the weights of a finished run",
    "config": "show what can be set and what the values are",
    "deliver": "deliver to MLflow what runs recorded while it was down",
    "bench": "measure this machine: ours against the plain way",
}
TOO_LARGE = "not enough memory; make the data, d, model.hidden or train.batch_size smaller"


class Parser(argparse.ArgumentParser):
    """argparse, but a wrong call is one line on stderr."""

    def error(self, message: str) -> NoReturn:
        complain(self.prog, message)
        sys.exit(2)


def complain(command: str, problem: object) -> None:
    """One line on stderr, even if the problem quotes words with line breaks."""
    err.print(f"{command}: {' '.join(str(problem).splitlines())}", markup=False)


def usage() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {summary}" for verb, summary in VERBS.items())
    return f"usage: permlab VERB …\n\n{verbs}\n\n`permlab VERB --help` says what a verb takes."


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    sys.excepthook = masked_traceback
    try:
        " ".join(words).encode()
    except UnicodeEncodeError:
        complain("permlab", "the call is not UTF-8 text")
        return 2
    if not words or words[0] in ("-h", "--help"):
        out.print(usage(), markup=False)
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        out.print(f"permlab {version('permlab')}", markup=False)
        return 0
    verb = words[0]
    if verb not in VERBS:
        complain("permlab", f"unknown verb {verb!r}; choose from {', '.join(VERBS)}")
        return 2
    try:
        return _call(verb, words[1:])
    except (BackboneError, ConfigError, DataError, ObjectiveError, ReadoutError, RunError, RunStopped) as error:
        complain(f"permlab {verb}", error)
        return error.exit_code
    except (MemoryError, RuntimeError) as error:  # torch raises RuntimeError if the CPU cannot allocate
        if not isinstance(error, MemoryError) and "allocate" not in str(error):
            raise
        complain(f"permlab {verb}", TOO_LARGE)
        return 1
    except (KeyboardInterrupt, StopNow):
        complain(f"permlab {verb}", "interrupted")
        return 130
    except BrokenPipeError:  # the reader of our stdout (`| head`) has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        complain(f"permlab {verb}", f"{file}{error.strerror or error}")
        return 1


def _call(verb: str, words: Sequence[str]) -> int:
    with large_imports():
        command = importlib.import_module(f"permlab.platform.commands.{verb}")
    parser = Parser(prog=f"permlab {verb}", description=command.__doc__, formatter_class=argparse.RawTextHelpFormatter)
    command.add_arguments(parser)
    code: int = command.run(parser.parse_intermixed_args(words))
    return code


if __name__ == "__main__":
    sys.exit(main())
