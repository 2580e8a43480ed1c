"""A storm of faults over one sweep, after which everything is as if nothing had happened. Slow, so run it by hand:

    python -m tests.storm --seed 0 --faults 20

Workers, drivers and couriers are killed; files that PermLab wrote get flipped bits, are truncated or removed; the disk
is full, the tracking store is unwritable, the clock jumps (these three as root only).
Then the same command runs until nothing is left to do: every cell must equal that of an undisturbed sweep bit for bit,
and MLflow must hold each cell once, with the same values.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import torch

from permlab.platform.run.stored_result import REMOVABLE

GRID = ["name=storm", "dataset=synthetic,graphs=300,max_nodes=12,task=classification", "method=[sum,ordering]"]
GRID += ["d=[2,3]", "seed=[0,1,2,3]", "train.epochs=60", "train.checkpoint_every=2", "train.eval_every=10"]
PERMLAB = [sys.executable, "-m", "permlab.platform.cli"]
COMMAND = [*PERMLAB, "sweep", *GRID, "retries=100", "max_failed=100"]
CELLS, ROOT = 16, os.geteuid() == 0
PAUSE = 4.0  # seconds that a full disk, an unwritable store or a wrong clock lasts


class Storm:
    """One sweep in `folder`; its driver is restarted whenever it has ended."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.runs, self.cache, self.store = folder / "disk" / "runs", folder / "cache", folder / "mlflow.db"
        self.environment = environment(folder)
        self.driver: subprocess.Popen[str] | None = None
        self.damaged: Counter[str] = Counter()
        self.output: list[str] = []

    def start(self, command: list[str] = COMMAND) -> None:
        self.driver = subprocess.Popen(
            command, cwd=self.folder / "disk", env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip

    def makes_progress(self) -> bool:
        """Wait until the sweep has made progress or ended; false if it ended."""
        if self.driver is None or self.driver.poll() is not None:
            self._collect_output()
            self.start()
        assert self.driver is not None
        before, limit = self._history_bytes(), time.monotonic() + 60
        while time.monotonic() < limit and self.driver.poll() is None and self._history_bytes() == before:
            time.sleep(0.05)
        time.sleep(self.chance.uniform(0, 2))
        return self.driver.poll() is None

    def _history_bytes(self) -> int:
        total = 0
        for path in self.runs.glob("cells/*/history.jsonl"):
            with suppress(OSError):
                total += path.stat().st_size
        return total

    def _collect_output(self) -> None:
        """Wait for the driver to end."""
        if self.driver is not None:
            self.output += self.driver.communicate()[0].splitlines()

    def end(self, number: int) -> None:
        """Send the driver a signal; Ray's processes end by themselves."""
        assert self.driver is not None
        self.driver.send_signal(number)
        self._collect_output()
        self.driver = None

    # The faults

    def kill_worker(self) -> None:
        self._kill("ray::_execute")

    def kill_courier(self) -> None:
        self._kill("permlab.platform.tracking.courier_process")

    def _kill(self, word: str) -> None:
        assert self.driver is not None
        descendants: list[psutil.Process] = []
        with suppress(psutil.Error):
            descendants = psutil.Process(self.driver.pid).children(recursive=True)
        for process in self.chance.sample(descendants, len(descendants)):
            with suppress(psutil.Error):
                if word in " ".join(process.cmdline()):
                    process.kill()
                    return

    def kill_driver(self) -> None:
        self.end(signal.SIGKILL)

    def interrupt_driver(self) -> None:
        self.end(signal.SIGINT)

    def terminate_driver(self) -> None:
        self.end(signal.SIGTERM)

    def flip_a_bit(self) -> None:
        if path := self._some_file():
            self._flip_bit_of(path)

    def _flip_bit_of(self, path: Path) -> None:
        if content := bytearray(path.read_bytes()):
            content[self.chance.randrange(len(content))] ^= 1 << self.chance.randrange(8)
            path.write_bytes(content)

    def truncate_file(self) -> None:
        if path := self._some_file():
            os.truncate(path, self.chance.randrange(max(path.stat().st_size, 1)))

    def remove_file(self) -> None:
        """Except files that may be removed to save space: their cells stay finished."""
        if (path := self._some_file()) and path.name not in REMOVABLE:
            path.unlink()

    def remove_cell(self) -> None:
        if cells := sorted(self.runs.glob("cells/*")):
            shutil.rmtree(self.chance.choice(cells), ignore_errors=True)

    def damage_the_cache(self) -> None:
        """Between two drivers: a running one has already checked the files and mapped them."""
        self.end(signal.SIGKILL)
        files = [path for path in self.cache.rglob("*") if path.is_file() and path.stat().st_size]
        path = self.chance.choice(sorted(files))
        self._flip_bit_of(path)
        self.damaged[f"cache/{path.suffix or path.name}"] += 1

    def _some_file(self) -> Path | None:
        """One of the kind that was damaged least so far; lock files are empty and do not count."""
        kinds = defaultdict(list)
        for path in sorted(self.runs.rglob("*")):
            with suppress(OSError):
                if path.is_file() and path.stat().st_size:
                    name = "delivered.json" if path.name.startswith("delivered") else path.name
                    kinds[name].append(path)
        if not kinds:
            return None
        fewest = min(self.damaged[kind] for kind in kinds)
        kind = self.chance.choice([kind for kind in kinds if self.damaged[kind] == fewest])
        self.damaged[kind] += 1
        return self.chance.choice(kinds[kind])

    def fill_the_disk(self) -> None:
        filler = self.folder / "disk" / "filler"
        with suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(2**20))
        time.sleep(PAUSE)
        filler.unlink()

    def lock_the_store(self) -> None:
        files = [str(path) for path in self.folder.glob("mlflow.db*")]
        subprocess.run(["chattr", "+i", *files], check=False, stderr=subprocess.DEVNULL)
        time.sleep(PAUSE)
        subprocess.run(["chattr", "-i", *files], check=False, stderr=subprocess.DEVNULL)

    def change_the_clock(self) -> None:
        hours, began = self.chance.choice([-30, -1, 1, 30]), time.monotonic()
        now = time.time()
        time.clock_settime(time.CLOCK_REALTIME, now + 3600 * hours)
        time.sleep(PAUSE)
        time.clock_settime(time.CLOCK_REALTIME, now + time.monotonic() - began)

    def faults(self) -> list[Callable[[], None]]:
        kills = [self.kill_worker, self.kill_driver, self.kill_courier, self.interrupt_driver, self.terminate_driver]
        damage = [self.flip_a_bit] * 4 + [self.truncate_file] * 3
        damage += [self.remove_file, self.remove_cell, self.damage_the_cache]
        return kills + damage + [self.fill_the_disk, self.lock_the_store, self.change_the_clock] * ROOT

    def rage(self, count: int) -> None:
        bag: list[Callable[[], None]] = []
        for number in range(count):
            if not bag:  # every fault comes up before one is repeated
                bag = self.chance.sample(self.faults(), len(self.faults()))
            fault = bag.pop()
            while not self.makes_progress():  # the sweep is done; without a cell it has work again
                self.remove_cell()
            fault()
            say(f"{number + 1:3d} {fault.__name__.replace('_', ' ')}")

    def calm(self) -> None:
        """The same command three times, since one call may notice what the last one missed; then delivery."""
        for command in (COMMAND, COMMAND, COMMAND, [*PERMLAB, "deliver"]):
            if self.driver is None:
                self.start(command)
            self._collect_output()
            self.driver = None


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RAY_"))}
    store = f"sqlite:///{folder / 'mlflow.db'}"
    return kept | {"PERMLAB_CACHE": str(folder / "cache"), "MLFLOW_TRACKING_URI": store}


def cells_of(runs: Path) -> dict[str, Any]:
    """What every finished cell computed, by key."""
    cells = {}
    for path in sorted(runs.glob("cells/*/result.json")):
        result = json.loads(path.read_text())
        history = [json.loads(line) for line in (path.parent / "history.jsonl").read_text().splitlines()]
        losses = {entry["epoch"]: {k: v for k, v in entry.items() if "/" in k} for entry in history}
        weights = torch.load(path.parent / "weights.pt", weights_only=True)
        cells[path.parent.name] = {
            "status": result["status"],
            "metrics": result["metrics"],
            "history": losses,
            "weights": {name: value.numpy().tobytes() for name, value in weights.items()},
            "predictions": (path.parent / "predictions.parquet").read_bytes(),
        }
    return cells


def store_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What MLflow holds of every cell, by key, without times and random identifiers."""
    from mlflow import MlflowClient

    client, runs = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}"), defaultdict(list)
    experiment = client.get_experiment_by_name("storm")
    for run in client.search_runs([experiment.experiment_id], max_results=5000):
        key = run.data.tags.get("permlab.key")
        if key is None:
            continue
        histories = {
            name: [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)]
            for name in run.data.metrics
            if "seconds" not in name
        }
        tags = {name: value for name, value in run.data.tags.items() if not name.startswith("mlflow.")}
        for name in ("permlab.delivered", "permlab.ticket"):
            tags.pop(name, None)
        params = {name: value for name, value in run.data.params.items() if name != "runs"}
        models = client.search_logged_models([experiment.experiment_id], f"source_run_id = '{run.info.run_id}'")
        kept = {"params": params, "tags": tags, "metrics": histories, "models": [str(model.status) for model in models]}
        runs[key].append({"status": run.info.status} | kept)
    return runs


def differences(storm: Path, calm: Path) -> list[str]:
    """Where the results differ from those of the undisturbed sweep, one line each."""
    lines = []
    ours, theirs = cells_of(storm / "disk" / "runs"), cells_of(calm / "disk" / "runs")
    if len(theirs) != CELLS or set(ours) != set(theirs):
        lines.append(f"{len(ours)} cells, {len(theirs)} without faults")
    for key in ours.keys() & theirs.keys():
        lines += [f"{key}: {part} differs" for part in theirs[key] if ours[key][part] != theirs[key][part]]
    in_ours, in_theirs = store_of(storm), store_of(calm)
    if set(in_ours) != set(in_theirs):
        lines.append(f"MLflow has {len(in_ours)} cells, {len(in_theirs)} without faults")
    for key in in_ours.keys() & in_theirs.keys():
        if len(in_ours[key]) != 1:
            lines.append(f"{key}: {len(in_ours[key])} runs in MLflow")
        for part, value in in_theirs[key][0].items():
            if (mine := in_ours[key][0][part]) != value:
                odd = (
                    [name for name in value | mine if mine.get(name) != value.get(name)]
                    if isinstance(value, dict)
                    else [mine]
                )
                lines.append(f"{key}: {part} in MLflow differ: {odd[:4]}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=20)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="permlab-storm-"))
    storm, calm = folder / "storm", folder / "calm"
    for sweep in (storm, calm):
        (sweep / "disk").mkdir(parents=True)
    subprocess.run(COMMAND, cwd=calm / "disk", env=environment(calm), check=True, capture_output=True)
    if ROOT:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(storm / "disk")], check=True)
    try:
        weather = Storm(storm, options.seed)
        weather.rage(options.faults)
        weather.calm()
        lines = differences(storm, calm)
        say(f"damaged files by kind: {dict(sorted(weather.damaged.items()))}")
        outcome = f"{len(lines)} differences" if lines else "everything as without them"
        say("\n".join([f"seed {options.seed}: {options.faults} faults, {outcome}", *lines[:20]]))
        if any("Traceback" in line for line in weather.output):
            say("\n".join(["output of the drivers:", *weather.output]))
        return bool(lines)
    finally:
        if ROOT:
            subprocess.run(["umount", "-l", str(storm / "disk")], check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
