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
        "called",
    }


def test_a_plug_in_says_how_it_is_called_and_what_it_states(permlab, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "from torch_geometric.nn.aggr import SumAggregation\n\n\nclass Mine(SumAggregation):\n    lipschitz = True\n"
    (tmp_path / "mine.py").write_text(text)
    code, out, _ = permlab("readouts", "--json", "mine.py:Mine", "pyg:SetTransformerAggregation", "kernels,sigma=2")
    mine, transformer, kernels = json.loads(out)
    assert code == 0 and mine["lipschitz"] is True and mine["injective"] is None
    assert transformer["called"].startswith("SetTransformerAggregation(channels, num_seed_points=1")
    assert kernels["formula"] and kernels["name"] == "kernels,sigma=2"
    assert permlab("readouts", "pyg:NoSuchAggregation")[0] == 2
