"""A tuning whose database needs a password, on real Ray: no file that it leaves contains it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.ray
DATA = "dataset=synthetic,graphs=200,max_nodes=8,task=classification"
GRID = [DATA, "name=secret", "method=sum", "d=2", "train.epochs=2", "data.holdout=30", "tune.seeds=1"]


def call(folder: Path, *words: str, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    command = [sys.executable, "-m", "permlab.platform.cli", *words]
    process = subprocess.run(command, cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=400)
    assert process.returncode == 0, process.stderr
    return process.stdout + process.stderr


def test_the_password_is_nowhere_and_a_resume_takes_it_from_the_environment(
    one_ray: None, with_password: str, tmp_path: Path
) -> None:
    address = with_password.replace("tuner@", "tuner:s3/cret@")
    output = call(tmp_path, "tune", *GRID, f"tune.storage={address}", "tune.trials=2")
    output += call(tmp_path, "tune", *GRID, f"tune.storage={with_password}", "tune.trials=3", PGPASSWORD="s3/cret")
    assert "2 trials done already" in output
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"sweep.yaml", "sweep.json", "mlflow.db", "tuned.yaml"} <= {path.name for path in files}
    for secret in (b"s3/cret", b"s3%2Fcret"):
        assert secret.decode() not in output
        assert not [path for path in files if secret in path.read_bytes()]
    (choice,) = yaml.safe_load((tmp_path / "runs" / "tunings" / "secret" / "tuned.yaml").read_text())["studies"]
    assert (choice["holdout"], choice["split_seed"]) == (30, 0)
    sweep = [word for word in GRID if not word.startswith(("tune.", "data."))]
    with pytest.raises(AssertionError, match="70 of the 100 graphs that data.holdout=100"):
        call(tmp_path, "sweep", *sweep, "tuned=secret", "data.holdout=100", "--plan")
    assert "sum-d2-s0" in call(tmp_path, "sweep", *sweep, "tuned=secret", "data.holdout=30", "--plan")
