"""Write a run's files while it trains: they are the truth about it, whether or not a tracking server can be reached.

run.json       what it is: name, settings, tags, parameters, data set, engine, numerics
history.jsonl  one line per epoch
weights.pt, predictions.parquet: of a finished run; error.txt: of one that failed
result.json    how it ended, and the digests of the other files; written last
checkpoint.pt, checkpoint.before: while it is under way
"""

import hashlib
import json
import platform
import socket
import subprocess
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch

from permlab.datasets.sources.base import file_digest
from permlab.datasets.store import GraphStore
from permlab.platform.files.json_files import without_nan, write_json
from permlab.platform.files.secrets import mask
from permlab.platform.files.whole_file import remove_parts, whole_file
from permlab.platform.plugins.code import loaded
from permlab.platform.run.certificates import measure_certificate
from permlab.platform.run.checkpoint import FILE_NAME as CHECKPOINT
from permlab.platform.run.checkpoint import remove_state, save_weights
from permlab.platform.run.histories import FILE_NAME as HISTORY
from permlab.platform.run.histories import history_line
from permlab.platform.run.model import DataFacts
from permlab.platform.run.numerics import Numerics, device_of
from permlab.platform.run.process_settings import process_for_runs
from permlab.platform.run.stored_result import FILE_NAME as RESULT
from permlab.platform.run.stored_result import FINISHED, PREDICTIONS, WEIGHTS, finished_result
from permlab.platform.run.training import Result, Training
from permlab.platform.settings.run import RESULT_VERSION, RunSettings, cell_folder, cell_key
from permlab.platform.settings.words import describe
from permlab.tasks.data import EvaluationLoader
from permlab.tasks.objectives import Objective

RUN = "run.json"
VERSIONS = ("permlab", "torch-geometric", "pytorch-lightning")  # recorded; the numerics have torch's and others
SUMMARY = ("dataset", "method", "d", "seed", "epochs", "key", "seconds", "metrics", "engine")


class Record:
    """Writes the files of one run."""

    def __init__(self, settings: RunSettings, store: GraphStore) -> None:
        self.settings, self.store, self.manifest = settings, store, store.manifest
        self.key = cell_key(settings, self.manifest.digest)
        self.folder = cell_folder(settings, self.key)
        self.run: dict[str, Any] = {}  # the document of run.json
        self.written: list[str] = []  # the lines of history.jsonl

    @property
    def finished(self) -> dict[str, Any] | None:
        """The stored result, if the run is done and what it left is whole."""
        return finished_result(self.folder)

    def forget(self) -> None:
        """Remove all files of the run; its run in MLflow is replaced when the new one has ended."""
        for path in self.folder.glob("*.*"):
            if path.is_file() and not path.name.endswith("lock"):
                path.unlink(missing_ok=True)

    def start(self) -> None:
        settings, manifest = self.settings, self.manifest
        for old in (RESULT, HISTORY, "error.txt"):
            (self.folder / old).unlink(missing_ok=True)
        for name in (RUN, HISTORY, WEIGHTS, PREDICTIONS, RESULT, CHECKPOINT):
            remove_parts(self.folder / name)
        tags = {
            "permlab.key": self.key,
            "method": settings.method,
            "d": str(settings.d),
            "seed": str(settings.seed),
            "dataset": manifest.name,
            "dataset.digest": manifest.digest,
            "git.commit": _git_commit(),
            "versions": json.dumps({name: version(name) for name in VERSIONS} | {"Python": platform.python_version()}),
            "host": socket.gethostname(),
            "device": device_of(settings.accelerator),
        }
        self.run = {
            "version": RESULT_VERSION,
            "name": settings.name,
            "settings": settings.model_dump(mode="json"),
            "experiment": settings.experiment,
            "tags": tags,
            "params": {key: str(value) for key, value, _ in describe(type(settings), settings)},
            "dataset": {"name": manifest.name, "digest": manifest.digest, "graphs": manifest.graphs},
            "model": DataFacts.of_store(self.store, settings).document,
            "codes": {head: loaded(head).digest for head in settings.codes},
            "started": time.time(),
        }
        write_json(self.folder / RUN, self.run)

    def engine(self, engine: dict[str, str], numerics: list[Numerics]) -> None:
        """Record what takes the training steps, and the numerics so far."""
        self.run |= {"engine": engine, "numerics": numerics[-1], "mixed": numerics if len(numerics) > 1 else []}
        self.run["tags"] |= engine_tags(engine, numerics)
        write_json(self.folder / RUN, self.run)

    def objective(self, objective: Objective) -> None:
        """Record what is measured, and which way is better: a report must not need the code of a metric."""
        metrics = {name: list(metric) for name, metric in objective.metrics.items()}
        self.run["tags"]["objective"] = json.dumps({"headline": objective.headline, "metrics": metrics})
        write_json(self.folder / RUN, self.run)

    def epochs(self, history: list[dict[str, float]]) -> None:
        """Append new epochs; an epoch whose final metrics came later is written again, whole."""
        begin = max(len(self.written) - 1, 0)
        lines = [history_line(entry) for entry in history[begin:]]
        with (self.folder / HISTORY).open("a") as file:
            file.writelines(lines[1:] if lines[:1] == self.written[begin:] else lines)
        self.written[begin:] = lines

    def finish(self, training: Training, result: Result) -> dict[str, Any]:
        """Write the artifacts, then the result, and remove the checkpoint."""
        write_json(self.folder / RUN, self.run)  # again, like the history, in case the file was damaged since
        files = {
            RUN: file_digest(self.folder / RUN),
            HISTORY: self._history(result),
            WEIGHTS: save_weights(result.weights, self.folder / WEIGHTS),
            PREDICTIONS: self._predictions(training, result),
        }
        with process_for_runs(training.settings.threads):
            certificate = measure_certificate(training)
        document = summary(result) | {
            "numerics": result.numerics[-1],
            "mixed": result.numerics if len(result.numerics) > 1 else [],
            "best_epoch": result.best_epoch,
            "ended_early": result.ended_early,
            "parameters": result.parameters,
            "graphs": {part: len(graphs) for part, graphs in training.data.split._asdict().items()},
            "certificate": without_nan(certificate),
            "tags": engine_tags(result.engine, result.numerics),
            "files": files,
            "status": FINISHED,
            "ended": time.time(),
        }
        write_json(self.folder / RESULT, document)
        remove_state(self.folder / CHECKPOINT)
        return document

    def end(self, status: str, message: str, traceback: str = "") -> None:
        """Record that the run ended early."""
        if traceback:
            (self.folder / "error.txt").write_text(mask(traceback))
        write_json(self.folder / RESULT, {"status": status, "error": message, "ended": time.time()})

    def _history(self, result: Result) -> str:
        """Write all epochs again, each once; returns the digest of the file."""
        content = "".join(map(history_line, result.history)).encode()
        with whole_file(self.folder / HISTORY) as file:
            file.write(content)
        return hashlib.sha256(content).hexdigest()

    def _predictions(self, training: Training, result: Result) -> str:
        """Write the predictions; returns the digest of the file."""
        store, data = training.store, training.data
        parts = []
        for split, predictions in result.outputs.items():
            graphs = EvaluationLoader(data, split).graphs
            columns = {"graph_id": store.graph_id[graphs]} | columns_of(store.y[graphs], predictions, store.targets)
            parts.append(pa.table({"split": [split] * len(graphs)} | columns))
        with whole_file(self.folder / PREDICTIONS) as file:
            pa.parquet.write_table(pa.concat_tables(parts), file)
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest()


def summary(result: Result) -> dict[str, Any]:
    """The document of `train --json`."""
    return without_nan({name: getattr(result, name) for name in SUMMARY})


def columns_of(y: np.ndarray, predictions: torch.Tensor, targets: tuple[str, ...]) -> dict[str, np.ndarray]:
    """`y` and `prediction`; of several targets `y_NAME` and `prediction_NAME`, of several classes `prediction_0`, …"""
    names: dict[int, Any] = {len(targets): targets}
    columns = {}
    for kind, values in (("y", y), ("prediction", predictions.numpy())):
        if values.ndim == 1:
            columns[kind] = values
        else:
            width = values.shape[1]
            columns |= {f"{kind}_{name}": values[:, i] for i, name in enumerate(names.get(width, range(width)))}
    return columns


def engine_tags(engine: dict[str, str], numerics: list[Numerics]) -> dict[str, str]:
    """The tags that tracking stores: `numerics` is a list, with several entries if the run is mixed."""
    return {"engine": engine["name"], "engine.reason": engine["reason"], "numerics": json.dumps(numerics)}


@cache
def _git_commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
