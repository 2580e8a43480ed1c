import json
import subprocess
import sys

import pytest

from permlab.platform.cli import VERBS


def test_help_names_every_verb(permlab) -> None:
    code, out, err = permlab("--help")
    assert code == 0 and not err
    assert all(f"  {verb}" in out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(permlab, verb: str) -> None:
    code, out, _ = permlab(verb, "--help")
    assert code == 0 and f"permlab {verb}" in out


def test_unknown_verb_is_one_line_with_the_choices(permlab) -> None:
    code, out, err = permlab("trian")
    assert (code, out) == (2, "")
    assert "'trian'" in err and all(verb in err for verb in VERBS) and err.count("\n") == 1


def test_unknown_option_is_one_line(permlab) -> None:
    code, out, err = permlab("data", "list", "--colour")
    assert (code, out) == (2, "") and err.startswith("permlab data: ")
    assert "--colour" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["config", "show", "--json", "d=50"],
        ["config", "--json", "show", "d=50"],
        ["config", "show", "seed=1", "--json", "d=50"],
    ],
)
def test_options_may_stand_anywhere(permlab, words: list[str]) -> None:
    code, out, err = permlab(*words)
    assert code == 0 and json.loads(out)["d"] == 50, err


def test_a_path_is_printed_as_it_is(permlab, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMLAB_CACHE", str(tmp_path / ":x: [bold] [/red]"))
    code, out, err = permlab("data", "list")
    assert code == 0 and f"built in {tmp_path}/:x: [bold] [/red]:" in out, err
    assert permlab("data", "path", "synthetic", "graphs=5")[0] == 1
    assert ":x: [bold] [/red]" in permlab("data", "build", "synthetic", "graphs=5")[1]


def test_a_pipe_gets_the_whole_table(capsys: pytest.CaptureFixture[str]) -> None:
    from permlab.platform.commands.tune import show

    name = "first/synthetic,graphs=300,max_nodes=12,task=classification,features=12,seed=17/ordering/d10"
    row = {"number": 0, "value": 0.98765, "values": {}}
    study = {"study": name, "trials": [row], "finished": 1, "pruned": 0, "epochs_saved": 0.0, "metric": "auc"}
    show([study | {"maximise": True}])
    first = capsys.readouterr().out.splitlines()[1]
    assert first.startswith(name) and first.count("0.9877") == 2 and "…" not in first


def test_an_error_of_the_system_is_one_line(permlab, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["predict", "a" * 300], ["data", "info", f"table:{'a' * 300}.csv"]):
        code, out, err = permlab(*words)
        assert code in (1, 2) and not out and err.count("\n") == 1, err


def test_a_call_that_is_not_text_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "permlab.platform.cli", b"\xff"], capture_output=True)
    assert done.returncode == 2 and b"UTF-8" in done.stderr and done.stderr.count(b"\n") == 1


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from permlab.platform.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_a_closed_pipe_is_not_an_error() -> None:
    code = "import sys; from permlab.platform.cli import main; sys.exit(main(['data', 'list', '--json']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.wait() in (0, 120) and "Traceback" not in process.stderr.read()


def test_json_is_one_document_and_nothing_else(permlab) -> None:
    code, out, err = permlab("data", "build", "synthetic", "graphs=100", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["graphs"] == 100
