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
    assert err.startswith("permlab: unknown verb 'trian'; choose from data") and err.count("\n") == 1


def test_unknown_option_is_one_line(permlab) -> None:
    code, out, err = permlab("data", "list", "--colour")
    assert (code, out, err) == (2, "", "permlab data: unrecognized arguments: --colour\n")


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from permlab.platform.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_a_reader_that_leaves_is_no_error() -> None:
    code = "import sys; from permlab.platform.cli import main; sys.exit(main(['data', 'list', '--json']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.wait() in (0, 120) and "Traceback" not in process.stderr.read()


def test_json_is_one_document_and_nothing_else(permlab) -> None:
    code, out, err = permlab("data", "build", "synthetic", "graphs=100", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["graphs"] == 100
