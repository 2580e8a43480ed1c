"""No password is printed or written down: by any verb, in any message, in a traceback, in a file."""

import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from permlab.platform.display.console import out
from permlab.platform.files.json_files import write_json
from permlab.platform.files.secrets import mask
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.sweep.folder import open_folder

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://me:s3cret@db:5432/mlflow", "postgresql://me:***@db:5432/mlflow"),
        ("postgresql+psycopg://me:s3cret@db/x cannot be reached", "postgresql+psycopg://me:***@db/x cannot be reached"),
        ("http://:s3cret@host", "http://:***@host"),
        ("a://u:s3c/r@et@host/b and c://v:s3cret@host", "a://u:***@host/b and c://v:***@host"),
        ("url='https://u:s3cret@host/'", "url='https://u:***@host/'"),
        ("postgresql://db/x?user=me&password=s3cret&a=b", "postgresql://db/x?user=me&password=***&a=b"),
        ("postgresql://me@corp:s3cret@db/x", "postgresql://me@corp:***@db/x"),
        ("postgresql://me:s3'cr\"et@db/x", "postgresql://me:***@db/x"),
        ("postgresql://me:s3 cret@db/x", "postgresql://me:***@db/x"),
        ("postgresql://me@db:5432/x?password=s3@cret", "postgresql://me@db:5432/x?password=***"),
        ("host=db password=s3cret user=me", "host=db password=*** user=me"),
        ("password = 's3 cret' user=me", "password = *** user=me"),
        ('password="s3 cret" user=me', "password=*** user=me"),
        ("password: s3cret", "password: ***"),
        ('{"password": "s3 cret", "user": "me"}', '{"password": ***, "user": "me"}'),
        ("host=db password=se,cret", "host=db password=***"),
        ("postgresql://db/x?password=ab}cd&x=1", "postgresql://db/x?password=***&x=1"),
        ("{password: s3cret, user: me}", "{password: ***, user: me}"),
        ('{"token": "a\\"bc", "user": "me"}', '{"token": ***, "user": "me"}'),
        (r"password='s3 \'cret' user=me", "password=*** user=me"),
        ("Pwd=s3cret;api_key=s3cret", "Pwd=***"),
        ("aws_access_key=s3cret apikey=s3cret", "aws_access_key=*** apikey=***"),
        ("PGPASSWORD=s3cret permlab tune", "PGPASSWORD=*** permlab tune"),
        ("http://127.0.0.1:5000/path", "http://127.0.0.1:5000/path"),
        ("http://127.0.0.1:5000 failed, ask me@here", "http://127.0.0.1:5000 failed, ask me@here"),
        ("sqlite:////tmp/a@b.db", "sqlite:////tmp/a@b.db"),
        ("s3://bucket/folder at 12:30 by me@here", "s3://bucket/folder at 12:30 by me@here"),
    ],
)
def test_masking(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        (f"http://me:{SECRET}@127.0.0.1:1", ["ui"]),
        (f"http://me:{SECRET}@127.0.0.1:1", ["deliver"]),
        (f"http://me:{SECRET}@127.0.0.1:1", ["predict", "no-such-run"]),
        (f"http://me:{SECRET}@127.0.0.1:1", ["doctor"]),
        (f"postgresql://me:{SECRET}@127.0.0.1:1/x", ["doctor", "--json"]),
        (f"http://me:{SECRET}@127.0.0.1:1", ["report", "no-such-sweep"]),
        (f"nonsense://me:{SECRET}@host/x", ["deliver"]),
    ],
)
def test_no_verb_prints_it(permlab, tmp_path, monkeypatch: pytest.MonkeyPatch, uri: str, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    _, shown, err = permlab(*words)
    assert shown + err and SECRET not in shown + err
    assert "me:***@" in shown + err or words == ["deliver"]


STORAGES = [
    f"postgresql://me:{SECRET}@db/x",
    f"postgresql://me:a/{SECRET}@db/x",
    f"postgresql://me@db/x?password={SECRET}",
    f"postgresql://me@corp:{SECRET}@db/x",
]


@pytest.mark.parametrize("storage", STORAGES)
def test_a_sweep_keeps_it_only_in_memory(storage: str, tmp_path: Path) -> None:
    settings = read_settings(SweepSettings, [f"tune.storage={storage}"])
    open_folder(tmp_path, settings, [])
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {"sweep.yaml", "sweep.json"} <= set(written) and SECRET not in "".join(written.values())
    assert settings.tune and SECRET in str(settings.tune.storage)
    resumed = read_settings(SweepSettings, [str(tmp_path / "sweep.yaml")])  # PGPASSWORD or ~/.pgpass has it now
    assert resumed.tune and "*" not in str(resumed.tune.storage)


@pytest.mark.parametrize("verb", ["sweep", "tune"])
@pytest.mark.parametrize(
    "storage", [f"postgresql://me:a@{SECRET}@127.0.0.1:1/x", f"host=127.0.0.1 password={SECRET}", *STORAGES]
)
def test_a_wrong_call_does_not_print_it(permlab, tmp_path, monkeypatch, verb: str, storage: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, shown, err = permlab(verb, "dataset=synthetic,graphs=60", f"tune.storage={storage}", "d=0")
    assert code == 2 and ("d=0" in err or "tune.storage" in err) and SECRET not in shown + err


def test_an_at_sign_in_a_password_must_be_encoded(permlab) -> None:
    """Otherwise the text after it would be taken for the host, and appear in the database's own message."""
    code, _, err = permlab("tune", f"tune.storage=postgresql://me:a@{SECRET}@127.0.0.1:1/x")
    assert code == 2 and "%40" in err and "PGPASSWORD" in err and SECRET not in err


def test_a_failed_run_does_not_write_it_down(tmp_path: Path) -> None:
    write_json(tmp_path / "result.json", {"error": [f"a://me:{SECRET}@h is down"], "by": {"x": f"password={SECRET}"}})
    written = (tmp_path / "result.json").read_text()
    assert SECRET not in written and "a://me:***@h is down" in written


def test_a_table_does_not_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("address")
    table.add_row(f"postgresql://me:{SECRET}@db/x")
    out.print(table)
    shown = capsys.readouterr().out
    assert "postgresql://me:***@db/x" in shown and SECRET not in shown


def test_a_traceback_does_not_show_it_either() -> None:
    code = f"import sys; from permlab.platform.cli import main; main(['--help']); raise ValueError('x://me:{SECRET}@h')"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ValueError: x://me:***@h" in process.stderr and SECRET not in process.stderr.replace(code, "")
