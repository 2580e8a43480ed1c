"""A sweep as a Ray job on the whole stack, with faults, gives what the same sweep gives in one process."""

import base64
import json
import secrets
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest

from permlab.platform.run.histories import read_history
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings
from tests.infra.processes import command_line, listening_addresses, wait_for
from tests.infra.sweeps import epochs_stored

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]
RAY = str(Path(sys.executable).parent / "ray")
GRID = ["name=faults", "dataset=synthetic,graphs=300,max_nodes=12,task=classification", "method=[sum,ordering]"]
GRID += ["d=3", "seed=[0,1]", "train.epochs=1000", "train.checkpoint_every=20", "train.eval_every=250", "retries=100"]


def submit(environment: dict[str, str], *entrypoint: str) -> subprocess.Popen[str]:
    command = [RAY, "job", "submit", "--runtime-env", "infra/runtime-env.yaml", "--", *entrypoint]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def stored_histories(database: str) -> dict[str, dict[tuple[str, int], float]]:
    """What PostgreSQL holds of the sweep's cells: (metric, epoch) → value, by key; each cell once."""
    runs = "SELECT t.value, r.run_uuid, r.status FROM runs r JOIN tags t USING (run_uuid) WHERE t.key = 'permlab.key'"
    histories = {}
    with psycopg.connect(database) as connection:
        rows = connection.execute(runs).fetchall()
        assert Counter(key for key, _, _ in rows).most_common(1)[0][1] == 1, "a cell is there twice"
        assert {status for _, _, status in rows} == {"FINISHED"}
        for key, run, _ in rows:
            wanted = "SELECT key, step, value FROM metrics WHERE run_uuid = %s AND key ~ '^(train|holdout)'"
            points = connection.execute(wanted, [run]).fetchall()  # type: ignore[arg-type]
            histories[key] = {(metric, step): value for metric, step, value in points}
            assert len(histories[key]) == len(points), "a metric is there twice"
        (parent,) = connection.execute("SELECT status FROM runs WHERE name = 'faults'").fetchall()
        assert parent == ("FINISHED",)
    return histories


def local_histories(runs: Path) -> dict[str, dict[tuple[str, int], float]]:
    """The same grid, cell after cell, in this process."""
    from permlab.platform.run.cell import run_cell

    sweep = read_settings(SweepSettings, [*GRID, f"runs={runs}", "track=false"])
    keys = [run_cell(cell)["key"] for cell in sweep.cells()]
    return {
        key: {
            (metric, entry["epoch"]): value
            for entry in read_history(runs / "cells" / key)
            for metric, value in entry.items()
            if metric != "epoch" and value is not None
        }
        for key in keys
    }


def test_a_lost_node_and_a_restarted_server_change_nothing(stack, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    job = submit(stack.environment, "python", "-m", "permlab.platform.cli", "sweep", *GRID, f"runs={runs}")
    try:
        wait_for(lambda: epochs_stored(runs) > 50, job)
        stack.kill("mlflow")
        before = epochs_stored(runs)
        wait_for(lambda: epochs_stored(runs) > before + 100, job)  # training does not mind
        stack.call("start", "--nodes", "2", "--cpus", "1")  # starts what is missing: the server
        wait_for(lambda: any("_execute" in command_line(p) for p in stack.processes("ray-1")), job)
        stack.kill("ray-1")
        out, _ = job.communicate(timeout=600)
    finally:
        job.kill()
    assert job.returncode == 0, out
    assert "2 of 2" in out and "on 2 nodes" in out and "not in MLflow yet" not in out, out
    database = stack.environment["PERMLAB_STUDIES"].replace("/optuna", "/mlflow")
    assert stored_histories(database) == local_histories(tmp_path / "local")


def test_a_wrong_token_is_refused(stack, tmp_path: Path) -> None:
    environment = stack.environment | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment.pop("RAY_AUTH_TOKEN_PATH")
    job = submit(environment, "touch", str(tmp_path / "ran"))
    out, _ = job.communicate(timeout=120)
    assert job.returncode != 0 and not (tmp_path / "ran").exists(), out
    command = [sys.executable, "-m", "permlab.platform.cli", "sweep", *GRID, "track=false", f"runs={tmp_path}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "token" in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("user", "password", "host", "code"),
    [
        ("permlab", "", "", 401),
        ("permlab", "wrong", "", 401),
        ("somebody", "right", "", 401),
        ("permlab", "right", "elsewhere.example", 403),
        ("permlab", "right", "", 200),
    ],
)
def test_who_may_read_runs(stack, user: str, password: str, host: str, code: int) -> None:
    environment = stack.environment
    request = Request(f"{environment['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/experiments/search?max_results=1")
    secret = environment["MLFLOW_TRACKING_PASSWORD"] if password == "right" else password
    if secret:
        request.add_header("Authorization", f"Basic {base64.b64encode(f'{user}:{secret}'.encode()).decode()}")
    if host:
        request.add_header("Host", host)
    try:
        with urlopen(request, timeout=30) as answer:
            assert answer.status == code
    except HTTPError as error:
        assert error.code == code


def test_the_doctor_reports_every_part(stack, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "permlab.platform.cli", "doctor", "--json"]
    environment = stack.environment
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    findings = {finding["name"]: finding["detail"] for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0, done.stdout
    assert findings["tracking"].endswith("as permlab") and "CPUs, 0 GPUs" in findings["ray"]
    environment["MLFLOW_TRACKING_PASSWORD"] = "wrong"
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "refuses user permlab" in done.stdout


def test_the_database_asks_for_its_password(stack) -> None:
    url: Any = stack.environment["PERMLAB_STUDIES"]
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url, password="wrong")


def test_nothing_listens_beyond_loopback(stack) -> None:
    addresses = listening_addresses(process for part in stack.state["parts"] for process in stack.processes(part))
    assert len(addresses) >= 6
    assert set(addresses) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_secrets_are_for_their_owner_alone(stack) -> None:
    folder = stack.folder / "cluster"
    assert folder.stat().st_mode & 0o077 == 0
    for name in ("state.json", "token", "auth.ini"):
        assert (folder / name).stat().st_mode & 0o077 == 0, name
    words = [command_line(process) for part in stack.state["parts"] for process in stack.processes(part)]
    for secret in stack.state["secrets"].values():
        assert not any(secret in line for line in words), "a secret stands in a command line, which everybody can read"
