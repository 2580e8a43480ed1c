"""Sweeps on real Ray: several nodes, declared GPUs, kills, and the same numbers at the end."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from permlab.platform.files.json_files import read_json
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.sweep.plan import make_plan
from permlab.platform.sweep.ray_cluster import cluster as join
from permlab.platform.sweep.ray_tasks import Tasks, _execute, run_cells
from tests.infra.processes import wait_for
from tests.infra.sweeps import finished_metrics

pytestmark = pytest.mark.ray
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
DATA = "dataset=synthetic,graphs=300,max_nodes=12,task=classification"
KILLS = int(os.environ.get("PERMLAB_TEST_KILLS", "3"))
CLI = [sys.executable, "-m", "permlab.platform.cli"]


@pytest.fixture(scope="module")
def module_cache(one_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache for all tests here: Ray's workers take it from the environment in which Ray was started."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("sweep-cache")
        patch.setenv("PERMLAB_CACHE", str(folder))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


@pytest.fixture(autouse=True)
def same_cache(module_cache: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMLAB_CACHE", str(module_cache))


@pytest.fixture(scope="module")
def two_nodes(module_cache: Path) -> Iterator[Cluster]:
    """Two Ray nodes with four declared GPUs each."""
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 4, "include_dashboard": False})
    nodes.add_node(num_cpus=2, num_gpus=4)
    yield nodes
    nodes.shutdown()


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CLI, *words], cwd=folder, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def results(folder: Path) -> dict[str, Any]:
    """Metrics of every finished cell by its key."""
    return finished_metrics(folder / "runs")


def own_workers() -> list[psutil.Process]:
    """The busy workers of our own clusters, once there are any: not those of other users of Ray on this machine."""
    limit = time.monotonic() + 120
    while time.monotonic() < limit:
        with suppress(psutil.Error):
            children = psutil.Process().children(recursive=True)
            if workers := [child for child in children if "ray::_execute" in "".join(child.cmdline())]:
                return workers
        time.sleep(0.05)
    raise AssertionError("no worker is busy")


def epochs_seen(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.glob("runs/cells/*/history.jsonl"))


def reference(folder: Path, words: list[str]) -> dict[str, Any]:
    """The same grid, cell after cell, in this process, without Ray."""
    from permlab.platform.run.cell import run_cell

    sweep = read_settings(SweepSettings, [*words, f"runs={folder / 'plain'}"])
    return {result["key"]: result["metrics"] for result in (run_cell(cell) for cell in sweep.cells())}


def test_declared_gpus_are_shared_and_never_overbooked(two_nodes: Cluster, tmp_path: Path) -> None:
    """At half a GPU per cell, all eight GPUs run two cells at a time and none runs three."""
    log = tmp_path / "log"
    log.mkdir()

    def hold(settings: RunSettings) -> dict[str, Any]:
        began = time.time()
        time.sleep(1.5)
        gpu = f"{ray.get_runtime_context().get_node_id()}-{ray.get_gpu_ids()[0]}"
        (log / f"{settings.seed}.json").write_text(json.dumps([gpu, began, time.time()]))
        return {"metrics": {}}

    words = [DATA, "seed=[" + ",".join(map(str, range(40))) + "]", "resources.cpus=0.1", "resources.gpus=0.5"]
    settings = read_settings(SweepSettings, [*words, f"runs={tmp_path / 'runs'}", "track=false"])
    from permlab.datasets.cache import build

    build(settings.dataset[0])
    with join(two_nodes.address):
        progress = run_cells(settings, make_plan(settings.cells()), hold, lambda progress: None, lambda: 0)
    assert (progress.finished, progress.failed) == (40, 0)
    held = [json.loads(path.read_text()) for path in log.iterdir()]
    assert len({gpu for gpu, _, _ in held}) == 8
    at_once = [sum(other == gpu and begin <= moment < end for other, begin, end in held) for gpu, moment, _ in held]
    assert max(at_once) == 2


def test_kills_a_lost_node_and_a_dead_driver_change_nothing(two_nodes: Cluster, tmp_path: Path) -> None:
    grid = ["name=faults", DATA, "method=[sum,ordering]", "d=3", "seed=[0,1]"]
    grid += ["train.epochs=60", "train.checkpoint_every=2", "train.eval_every=20", "track=false", "retries=100"]
    command = ("sweep", *grid, "--address", two_nodes.address)
    extra = two_nodes.add_node(num_cpus=1)
    process = start(tmp_path, *command)
    chance = random.Random(0)
    try:
        for kill in range(KILLS):
            before = epochs_seen(tmp_path)
            wait_for(lambda before=before: epochs_seen(tmp_path) > before + 3, process)
            chance.choice(own_workers()).send_signal(signal.SIGKILL)
            if kill == KILLS // 2:
                two_nodes.remove_node(extra, allow_graceful=False)
                extra = two_nodes.add_node(num_cpus=1)
        process.send_signal(signal.SIGKILL)  # the driver
        process.communicate()
        done_before = {
            key: (tmp_path / "runs" / "cells" / key / "result.json").stat().st_mtime_ns for key in results(tmp_path)
        }
        process = start(tmp_path, *command)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    finally:
        process.kill()
        two_nodes.remove_node(extra)
    assert results(tmp_path) == reference(tmp_path, grid)
    for key, stamp in done_before.items():  # finished cells were not run again
        assert (tmp_path / "runs" / "cells" / key / "result.json").stat().st_mtime_ns == stamp


def test_epochs_of_cells_on_nodes_that_do_not_share_the_runs_folder_are_seen_while_they_train(
    two_nodes: Cluster, tmp_path: Path
) -> None:
    from permlab.datasets.cache import build
    from permlab.platform.run.cell import run_cell
    from permlab.platform.run.progress import Follower

    words = [DATA, "train.epochs=100000", "train.eval_every=100", f"runs={tmp_path / 'runs'}", "track=false"]
    settings = read_settings(SweepSettings, words)
    build(settings.dataset[0])
    (cell,) = make_plan(settings.cells())
    follower = Follower(cell.folder / "history.jsonl")
    seen, limit = [], time.monotonic() + 120
    with join(two_nodes.address), Tasks(settings) as tasks:
        (tasks.runs / tasks.sentinel).unlink()  # to the workers this folder looks like one that they do not share
        tasks.start(cell, run_cell, cell.settings, f"cells/{cell.key}")
        while len(seen) < 3:
            assert time.monotonic() < limit and not list(tasks.ended())
            follower.look()
            seen += [follower.epoch] if follower.epoch > max(seen, default=0) else []
        run = read_json(cell.folder / "run.json")
        assert run and run["name"] == "sum-d10-s0" and not (cell.folder / "checkpoint.pt").exists()
        assert "holdout/auc" in follower.measured
        tasks.cancel()
        while len(tasks):
            assert time.monotonic() < limit
            for _, outcome in tasks.ended():
                assert outcome["status"] == "STOPPED"
    lines = (cell.folder / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, len(lines) + 1))


def test_sqlite_is_refused_on_several_nodes(two_nodes: Cluster, tmp_path: Path) -> None:
    process = start(tmp_path, "sweep", DATA, "--address", two_nodes.address)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and "nodes and tracking goes to sqlite" in err and "MLFLOW_TRACKING_URI" in err


def test_more_gpus_than_any_node_has(two_nodes: Cluster, tmp_path: Path) -> None:
    process = start(tmp_path, "sweep", DATA, "resources.gpus=5", "track=false", "--address", two_nodes.address)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and "5 GPUs" in err and "4 GPUs" in err and "Traceback" not in err


def test_stopped_killed_and_started_again_on_this_machine(tmp_path: Path) -> None:
    """Ctrl-C, then kill −9, then to the end: the same numbers, and no run left RUNNING."""
    grid = ["name=alone", DATA, "method=[sort,sum]", "d=3", "seed=[0,1]", "train.epochs=80", "train.eval_every=40"]
    command = ("sweep", *grid)
    process = start(tmp_path, *command)
    wait_for(lambda: epochs_seen(tmp_path) > 10, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "the same command resumes" in err, err
    assert "stopping: 2 cells are saving their state" in err
    assert read_json(tmp_path / "runs" / "sweeps" / "alone" / "sweep.json")["status"] == "STOPPED"  # type: ignore[index]
    assert list(tmp_path.glob("runs/cells/*/checkpoint.pt"))
    assert "RUNNING" not in statuses(tmp_path)
    process = start(tmp_path, *command)
    before = epochs_seen(tmp_path)
    wait_for(lambda: epochs_seen(tmp_path) > before + 5, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    process = start(tmp_path, *command)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "2 of 2" in out and results(tmp_path) == reference(tmp_path, grid)
    assert statuses(tmp_path) == ["FINISHED"] * 5  # four cells and their parent
    again = start(tmp_path, "sweep", *[word.replace("[sort,sum]", "[sum,sort]") for word in grid], "--json")
    document = json.loads(again.communicate(timeout=120)[0])  # the grid in another order: same cells, nothing to run
    for row in document["cells"]:
        assert row["metrics"] == results(tmp_path)[row["key"]] and row["status"] == "FINISHED"
    state = start(tmp_path, "status", "alone").communicate(timeout=60)[0]
    assert state.count("finished") == 4 and "sort-d3-s0" in state


def test_a_node_without_memory_prints_one_line_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"memory_usage_threshold": "0.001", "memory_monitor_refresh_ms": "100"}.items():
        monkeypatch.setenv(f"RAY_{name}", value)
    monkeypatch.setenv("RAY_task_oom_retries", "1")
    process = start(tmp_path, "sweep", DATA, "train.epochs=1", "retries=1", "track=false", "--json")
    out, err = process.communicate(timeout=180)
    assert process.returncode == 1 and json.loads(out)["cells"][0]["status"] == "MISSING"
    lines = err.splitlines()
    assert any("memory ran low on" in line and "resumes from its checkpoint" in line for line in lines)
    assert any("failed: memory ran low each time" in line for line in lines)
    assert len(lines) < 12, err


def statuses(folder: Path) -> list[str]:
    from permlab.platform.tracking.store import connect

    client = connect(folder / "runs")
    experiment = client.get_experiment_by_name("alone")
    return [run.info.status for run in client.search_runs([experiment.experiment_id])]


def test_failed_cells_are_recorded_and_the_budget_ends_a_hopeless_sweep(tmp_path: Path) -> None:
    grid = [DATA, "method=[alpha0,sum]", "d=40", "seed=[0,1,2]", "train.epochs=2", "track=false"]
    process = start(tmp_path, "sweep", *grid, "name=some")
    out, err = process.communicate(timeout=180)
    assert process.returncode == 1 and "3 cells failed" in err and "Traceback" not in err
    assert "3 of 3" in out and "0 of 3" in out
    failed = [path for path in tmp_path.glob("runs/cells/*/result.json") if read_json(path)["status"] == "FAILED"]
    assert len(failed) == 3 and all("Traceback" in (path.parent / "error.txt").read_text() for path in failed)
    process = start(
        tmp_path, "sweep", *grid, "name=hopeless", "method=alpha0", "max_failed=0", "seed=[0,1,2,3,4,5,6,7,8]"
    )
    _, err = process.communicate(timeout=180)
    assert process.returncode == 1 and "gave up after" in err


def test_files_travel_back_where_the_runs_folder_is_not_shared(tmp_path: Path) -> None:
    settings = read_settings(RunSettings, [DATA, "train.epochs=1", "threads=1", f"runs={tmp_path}"])
    from permlab.datasets.cache import build
    from permlab.platform.run.cell import run_cell
    from permlab.platform.settings.run import cell_key

    digest = build(settings.dataset).digest
    key = cell_key(settings, digest)
    outcome = _execute(run_cell, settings, f"cells/{key}", str(tmp_path / "nowhere"), "sentinel", [], digest, [])
    assert outcome["status"] == "FINISHED"
    assert {"result.json", "run.json", "weights.pt", "predictions.parquet", "history.jsonl"} <= set(outcome["files"])
    assert not (tmp_path / "cells").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["method=[]"], "method has no values"),
        (["method=[sum,sorr]"], "'sorr': did you mean sort?"),
        (["d=[1,0]"], "d=0"),
        (["resources.gpus=1.5"], "a share of one GPU"),
        (["name=a/b"], "name=a/b"),
        (["max_fail=3"], "did you mean max_failed?"),
        ([DATA, "--address", "127.0.0.1:1"], "no Ray cluster at 127.0.0.1:1"),
        ([DATA, "--address", "nonsense"], "is not HOST:PORT"),
    ],
)
def test_wrong_settings_are_an_error_of_one_line(permlab, tmp_path, monkeypatch, words: list[str], says: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = permlab("sweep", *words)
    assert (code, out) == (2, ""), err
    *progress, last = err.splitlines()
    assert says in last and not any(says in line or "Traceback" in line for line in progress)


MINE = """
import os
from torch_geometric.nn.aggr import SumAggregation
{trouble}
class Mine(SumAggregation):
    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        return super().forward(2 * x, index, ptr, dim_size, dim)
"""


def test_plug_ins_travel_to_nodes_that_do_not_have_them(two_nodes: Cluster, tmp_path: Path) -> None:
    """The file is removed as soon as the driver has read it: the workers only have what travels with their task."""
    (tmp_path / "mine.py").write_text(MINE.format(trouble="os.path.exists('mine.py') and os.remove('mine.py')"))
    grid = [
        DATA,
        "method=[sum, mine.py:Mine, pyg:GRUAggregation]",
        "d=2",
        "seed=[0,1]",
        "train.epochs=2",
        "track=false",
    ]
    sweep = start(tmp_path, "sweep", *grid, "--address", two_nodes.address)
    out, err = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, out + err
    assert len(results(tmp_path)) == 6 and "mine.py:Mine" in out and not (tmp_path / "mine.py").exists()


def test_a_node_that_cannot_load_a_plug_in_fails_its_cells_alone(two_nodes: Cluster, tmp_path: Path) -> None:
    trouble = "import sys\nif 'default_worker' in sys.argv[0]:\n    raise ImportError('not here')"
    (tmp_path / "mine.py").write_text(MINE.format(trouble=trouble))
    grid = [DATA, "method=[sum, mine.py:Mine]", "d=2", "train.epochs=2", "track=false"]
    sweep = start(tmp_path, "sweep", *grid, "--address", two_nodes.address)
    out, err = sweep.communicate(timeout=300)
    assert sweep.returncode == 1 and len(results(tmp_path)) == 1
    (line,) = [line for line in (out + err).splitlines() if "not here" in line]
    assert "mine.py:Mine" in line and "Traceback" not in out + err
