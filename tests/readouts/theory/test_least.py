"""The fewest columns: keys and pieces, and the stored keys of docs/data, checked again."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.exact_pairs import collides
from permlab.readouts.theory.exact_search import decide, exact_enough
from permlab.readouts.theory.least import (
    PIECES,
    Piece,
    integer_key,
    is_full_spark_exactly,
    least_columns,
    run_piece,
)

DATA = Path(__file__).parents[3] / "docs" / "data"
STORED = [row for file in sorted(DATA.glob("least-*.json")) for row in json.loads(file.read_text())]
KEYS = [row for row in STORED if not row["generic"]]
QUICK = 60_000  # subspaces that take a second


def name_of(row: dict) -> str:
    return f"n{row['n']}-d{row['d']}-{'generic' if row['generic'] else row['seed']}"


def test_thirteen_sizes_are_stored_all_decided() -> None:
    assert len({(row["n"], row["d"]) for row in KEYS}) >= 13
    assert all(row["decided"] and row["D"] <= row["full_spark"] <= row["theorem"] for row in STORED)


@pytest.mark.parametrize("row", KEYS, ids=name_of)
def test_one_column_less_collides(row: dict) -> None:
    below = row["below"]
    X, Y = ([[Fraction(entry) for entry in line] for line in side] for side in below["pair"])
    assert below["D"] == row["D"] - 1 and len(X) == len(Y) == row["n"]
    assert collides([[Fraction(entry) for entry in line[: below["D"]]] for line in row["key"]], X, Y)


@pytest.mark.parametrize("row", [row for row in KEYS if row["visited"] <= QUICK], ids=name_of)
def test_stored_keys_are_universal(row: dict) -> None:
    key = np.array(row["key"], dtype=float)
    assert exact_enough(key, row["n"])
    found = decide(key, row["n"])
    assert (found.universal, found.visited) == (True, row["visited"])


def test_keys_grow_by_columns_and_are_full_spark() -> None:
    key = integer_key(4, 3, 8, seed=1)
    assert np.array_equal(key[:, :5], integer_key(4, 3, 5, seed=1)) and is_full_spark_exactly(key)
    assert not np.array_equal(key, integer_key(4, 3, 8, seed=2))
    assert not is_full_spark_exactly(np.array([[1, 0, 2], [0, 1, 0]]))
    assert exact_enough(key, 4)


def test_pieces_add_up() -> None:
    results = [run_piece(Piece(3, 3, 6, 0, False, part)) for part in range(PIECES)]
    assert all(result["universal"] for result in results)
    assert sum(result["visited"] for result in results) == decide(integer_key(3, 3, 6), 3).visited


@pytest.mark.parametrize("generic", [True, False])
def test_a_verdict_ends_at_the_first_pair_that_collides(generic: bool) -> None:
    asked: list[Piece] = []

    def run(pieces: list[Piece]):
        for piece in pieces:
            asked.append(piece)
            yield run_piece(piece)

    least = least_columns(3, 2, 0, generic, run)
    assert (least.least.D, least.below.D, least.enough, least.theorem) == (4, 3, 4, 7)
    assert [piece.part for piece in asked if piece.D == 2] == [0]  # two rows collide, which part 0 finds
    assert (
        0 < len([piece for piece in asked if piece.D == 3]) < PIECES == len([piece for piece in asked if piece.D == 4])
    )
    assert (least.below.pair is None) is generic


@pytest.mark.parametrize(
    ("n", "d", "message"),
    [(8, 2, "n is 8; the limit is 7"), (3, 0, "d is 0"), (6, 9, "d must be at most 4 for n = 6")],
)
def test_sizes_out_of_reach_are_refused(n: int, d: int, message: str) -> None:
    with pytest.raises(ReadoutError, match=message):
        integer_key(n, d, 3)
