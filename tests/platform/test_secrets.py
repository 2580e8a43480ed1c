"""No password that stands in an address is printed: by any verb, in any message, in a traceback."""

import subprocess
import sys

import pytest

from permlab.platform.secrets import mask

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
        ("http://127.0.0.1:5000/path", "http://127.0.0.1:5000/path"),
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
    _, out, err = permlab(*words)
    assert out + err and SECRET not in out + err
    assert "me:***@" in out + err or words == ["deliver"]


def test_a_traceback_does_not_show_it_either() -> None:
    code = f"import sys; from permlab.platform.cli import main; main(['--help']); raise ValueError('x://me:{SECRET}@h')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ValueError: x://me:***@h" in done.stderr and SECRET not in done.stderr.replace(code, "")
