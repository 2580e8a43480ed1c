import json
from fractions import Fraction
from pathlib import Path

import pytest

from permlab.readouts.theory import weighted
from permlab.readouts.theory.exact_pairs import collides
from permlab.readouts.theory.least import PIECES

FAST = ("--samples", "300", "--steps", "12")


def test_a_key_that_is_not_universal_is_shown_with_its_pair(permlab) -> None:
    code, out, err = permlab("certify", "ordering", "--n", "3", "--d", "2", *FAST)
    assert code == 0 and not err
    for part in (
        "n = 3, d = 2, m = 9",
        "proved bound",
        "collision: inputs 2 apart",
        "universal    no",
        "X = │",
        "Y = │",
    ):
        assert part in out


def test_a_universal_key_is_proved(permlab) -> None:
    code, out, _ = permlab("certify", "ordering", "--n", "3", "--d", "2", "--key", "spark", *FAST)
    assert code == 0 and "yes, full spark" in out and "no collision found" in out


def test_fewer_columns_are_proved_by_the_search(permlab) -> None:
    out = permlab("certify", "ordering", "--n", "4", "--d", "2", "--key", "spark:4", *FAST)[1]
    assert "yes, proved with 94 subspaces" in out


@pytest.mark.parametrize(
    "words",
    [
        ("power_sums", "--n", "8", "--d", "1"),
        ("zeta0", "--n", "6", "--d", "2"),
        ("ordering", "--n", "3", "--d", "2", "--key", "100000,0,1;0,100000,1"),
        ("identity", "--n", "1", "--d", "2"),
    ],
)
def test_true_facts_are_not_refuted(permlab, words: tuple[str, ...]) -> None:
    code, out, err = permlab("certify", *words, "--steps", "1")
    assert (code, err) == (0, "") and "not continuous" not in out


def test_a_refuted_fact_is_exit_code_1(permlab, monkeypatch) -> None:
    monkeypatch.setattr("permlab.readouts.pooling.Sum.injective", "yes")
    code, _, err = permlab("certify", "sum", "--n", "3", "--d", "2", *FAST)
    assert code == 1 and "refutes what sum states: injective is 'yes'" in err


def test_a_key_that_rounding_would_refute_is_not_decided(permlab) -> None:
    key = "1,0,1,1;0,1,1,-0.9999999999"
    out = permlab("certify", "ordering", "--n", "4", "--d", "2", "--key", key, *FAST)[1]
    assert "universal    not decided" in out and "collision: " not in out


def test_json_is_one_document(permlab) -> None:
    code, out, _ = permlab("certify", "sort", "--n", "3", "--d", "2", "--json", *FAST)
    document = json.loads(out)
    assert code == 0 and document["method"] == "sort" and document["contradictions"] == []
    assert document["jump"]["moved"] > 0.01 > 1e-5 > document["jump"]["distance"]
    assert document["ratio"]["sampling"]["largest"]["ratio"] > 1e4
    assert document["ratio"]["theorem"] == {"smallest": None, "largest": None}
    assert len(document["jump"]["X"]) == 3


def test_options_reach_the_readout(permlab) -> None:
    words = ("certify", "kernels", "kernels=7", "normalise=False", "--n", "3", "--d", "2", "--json", *FAST)
    document = json.loads(permlab(*words)[1])
    assert document["m"] == 7
    assert document["jump"] is None  # only the normalised kernels jump, at zero rows


def test_minimal_tabulates_the_least_columns(permlab, tmp_path: Path) -> None:
    words = ("certify", "--minimal", "--n", "2..4", "--d", "1..2", "--seeds", "2", "--runs", str(tmp_path))
    code, out, _ = permlab(*words)
    assert code == 0 and max(map(len, out.splitlines())) <= 110
    rows = [line.split()[:6] for line in out.splitlines()[2:]]
    assert [row for row in rows if row[2] == "generic"] == [
        ["2", "1", "generic", "1", "1", "1"],
        ["3", "1", "generic", "1", "1", "1"],
        ["4", "1", "generic", "1", "1", "1"],
        ["2", "2", "generic", "3", "3", "3"],
        ["3", "2", "generic", "4", "4", "7"],
        ["4", "2", "generic", "4", "5", "25"],
    ]
    assert [row[3] for row in rows[::3]] == [row[3] for row in rows[1::3]] == [row[3] for row in rows[2::3]]


def test_minimal_json_holds_the_key_the_proof_and_the_counterexample(permlab, tmp_path: Path) -> None:
    generic, row = json.loads(
        permlab("certify", "--minimal", "--n", "3", "--d", "2", "--runs", str(tmp_path), "--json")[1]
    )
    assert (row["D"], row["theorem"], row["full_spark"], row["decided"]) == (4, 7, 4, True)
    assert row["visited"] == generic["visited"] > 0 and row["below"]["D"] == generic["below"]["D"] == 3
    X, Y = ([[Fraction(entry) for entry in line] for line in side] for side in row["below"]["pair"])
    key = [[Fraction(entry) for entry in line[:3]] for line in row["key"]]
    assert collides(key, X, Y)


def test_minimal_resumes_from_the_pieces_that_are_stored(permlab, tmp_path: Path) -> None:
    words = ("certify", "--minimal", "--n", "4", "--d", "2", "--runs", str(tmp_path), "--json")
    first = json.loads(permlab(*words)[1])
    pieces = sorted((tmp_path / "least").glob("n4-d2-seed0-D4-*.json"))
    assert len(pieces) == PIECES
    before = {piece: piece.stat().st_mtime_ns for piece in pieces}
    pieces[3].unlink()
    pieces[5].write_text("damaged")
    assert [row | {"seconds": 0} for row in json.loads(permlab(*words)[1])] == [row | {"seconds": 0} for row in first]
    assert [piece for piece in pieces if piece.stat().st_mtime_ns != before[piece]] == [pieces[3], pieces[5]]


def test_minimal_admits_what_it_did_not_decide(permlab, tmp_path: Path) -> None:
    words = ("certify", "--minimal", "--n", "4", "--d", "2", "--runs", str(tmp_path))
    out = permlab(*words, "--seconds", "-1")[1]
    assert "≥ 2" in out and "open after 0 subspaces" in out
    assert "≥" not in permlab(*words)[1]  # an open piece is not kept: with time it is decided


def test_distortion_is_a_table_and_a_picture(permlab, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("permlab.readouts.theory.distortion.ROUNDS", 1)
    file = tmp_path / "distortion.png"
    words = ("--n", "2", "--d", "2", "--steps", "1", "--seeds", "2", "--runs", str(tmp_path), "--picture", str(file))
    code, out, _ = permlab("certify", "--distortion", *words)
    assert code == 0 and file.read_bytes().startswith(b"\x89PNG")
    lines = out.splitlines()[2:]
    assert len(lines) == 7 and any(line.split()[:3] == ["2", "equiangular", "3"] for line in lines)
    rows = json.loads(permlab("certify", "--distortion", *words[:-2], "--json")[1])
    for row in rows:
        assert 0 < row["certified"] <= row["smallest"] * (1 + 1e-9) and row["largest"] <= row["b0"] * (1 + 1e-9)
        assert row["at_least"] <= row["at_most"] * (1 + 1e-9)


def test_gamma_is_decided_or_refuted(permlab) -> None:
    words = ("certify", "--gamma", "--d", "2", "--samples", "60", "--json")
    (decided,) = json.loads(permlab(*words, "--n", "2")[1])
    assert (decided["m"], decided["injective"], decided["pair"]) == (6, True, None)
    (refuted,) = json.loads(permlab(*words, "--n", "3", "--m", "5", "--samples", "300")[1])
    assert refuted["injective"] is False
    X, Y = ([[Fraction(entry) for entry in row] for row in side] for side in refuted["pair"])
    assert weighted.collides(refuted["A"], refuted["B"], X, Y)
    assert "yes, decided" in permlab(*words[:-1], "--n", "2")[1]


def test_the_picture_is_written(permlab, tmp_path: Path) -> None:
    file = tmp_path / "ratios.png"
    code, out, _ = permlab("certify", "--picture", str(file), "--samples", "120")
    assert (code, out) == (0, f"{file}\n") and file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ordering", "--n", "3"), "--n and --d are needed"),
        (("--n", "3", "--d", "2"), "which readout? See: permlab readouts"),
        (("orderin", "--n", "3", "--d", "2"), "unknown readout 'orderin': did you mean ordering?"),
        (("ordering", "--n", "x", "--d", "2"), "--n is 'x'; it must be a number"),
        (("ordering", "--n", "3", "--d", "1..2"), "--d is 1..2; a range needs --minimal"),
        (("--distortion", "--n", "2..40", "--d", "2"), "the largest D is 421; the limit is 100"),
        (("--gamma", "--n", "9", "--d", "2"), "n is 9; the limit is 7"),
        (("--gamma", "--n", "3", "--d", "8"), "the number of minors of A is"),
        (("--minimal", "--n", "6", "--d", "9"), "d must be at most"),
        (("ordering", "--n", "2..4", "--d", "2"), "--n is 2..4; a range needs --minimal"),
        (("--minimal", "--n", "4..2", "--d", "2"), "a range must ascend"),
        (("--minimal", "--n", "9", "--d", "2"), "n is 9; the limit is 7"),
        (("ordering", "--n", "3", "--d", "2", "--key", "1,0;0"), "the key '1,0;0' is not ones, identity"),
        (("ordering", "--n", "3", "--d", "2", "--key", "1,0,1"), "the key A has 1 rows, but d = 2"),
        (("ordering", "--n", "9", "--d", "2", "--key", "spark"), "has 362,881 columns; the limit is 10,000"),
        (("sum", "--n", "3", "--d", "2", "--key", "ones"), "sum has no option 'key': it takes none"),
        (("sum", "kernels", "--n", "3", "--d", "2"), "'kernels' is not an option of the form key=value"),
        (("--picture", "ratios.txt"), "must end in .png or .svg"),
    ],
)
def test_a_wrong_call_is_one_line(permlab, words: tuple[str, ...], message: str) -> None:
    code, out, err = permlab("certify", *words)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
