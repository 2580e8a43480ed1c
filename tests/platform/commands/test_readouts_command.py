import json

from permlab.readouts.catalogue import CATALOGUE


def test_the_table_lines_up_within_100_columns(permlab) -> None:
    code, out, err = permlab("readouts")
    assert code == 0 and not err
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    for name in CATALOGUE:
        assert sum(line.startswith(f"{name} ") for line in lines) >= 2
    facts = lines[: lines.index("")]
    starts = {line.index(" yes" if " yes" in line else " no") for line in facts[1:3]}
    assert len(starts) == 1


def test_json_has_every_fact(permlab) -> None:
    document = json.loads(permlab("readouts", "--json")[1])
    assert [row["name"] for row in document] == list(CATALOGUE)
    ordering = document[0]
    assert ordering["injective"] == "almost everywhere" and ordering["in_paper"]
    assert set(ordering) == {
        "name",
        "in_paper",
        "formula",
        "m",
        "permutation_invariant",
        "injective",
        "lipschitz",
        "bi_lipschitz",
        "cost",
        "reference",
    }
