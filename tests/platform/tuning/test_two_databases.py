"""MLflow's SQLite, studies in PostgreSQL and a caller's own SQLite live in one process."""

from pathlib import Path

import pytest
import sqlalchemy
from optuna.study import StudyDirection

from permlab.platform.tracking.store import connect
from permlab.platform.tuning.lease import open_lease
from permlab.platform.tuning.study import open_storage


def test_postgresql_and_sqlite_in_one_process(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    client = connect(tmp_path / "runs")
    lease = open_lease(postgres)
    storage = open_storage(postgres, lease)
    own = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'own.db'}")
    experiment = client.create_experiment("both")
    client.create_run(experiment)
    study = storage.create_new_study([StudyDirection.MINIMIZE], "both")
    assert storage.get_study_name_from_id(study) == "both"
    assert len(client.search_runs([experiment])) == 1
    with own.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"  # not PermLab's engine: unchanged
    with sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}").connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    lease.close()
