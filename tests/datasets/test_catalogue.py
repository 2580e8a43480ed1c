import pytest

from permlab.datasets.catalogue import parse_name
from permlab.datasets.errors import DataUsageError
from permlab.datasets.sources.qm9 import QM9


def test_one_data_set_has_one_name() -> None:
    name = parse_name("qm9,seed=3,limit=500")
    assert name.text == name.folder == "qm9,limit=500,seed=3"
    assert name.source == QM9(limit=500, seed=3)
    assert parse_name("qm9,limit=0").text == "qm9"


def test_folders_have_safe_names_and_two_tables_never_share_one() -> None:
    assert parse_name("tu:MUTAG").folder == "tu-MUTAG"
    first, second = parse_name("table:a/my data.csv"), parse_name("table:b/my data.csv")
    assert first.folder != second.folder and first.folder.startswith("table-my_data-")


def test_a_file_name_may_hold_a_comma() -> None:
    assert parse_name("table:a,b.csv,target=z").source.file == "a,b.csv"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qm8", "'qm8'.*did you mean 'qm9'.*choose from qm9, proteins_full, tu:NAME, moleculenet:NAME"),
        ("", "unknown data set ''"),
        ("tu", "needs a name, as in tu:NAME"),
        ("qm9:x", "after a colon, got 'x'"),
        ("qm9,limits=3", r"unknown parameter 'limits' \(choose from limit, seed\)"),
        ("qm9,target=homo", "holds all its targets; choose one for a run with data.target=homo"),
        ("tu:MUTAG,target=2", "choose one for a run with data.target=target_2"),
        ("qm9,limit=many", "limit='many' is not a value of type int"),
        ("qm9,limit=1,limit=2", "sets a parameter twice"),
        ("table:x.csv,skip_invalid=maybe", "skip_invalid='maybe' is not a value of type bool"),
        ("synthetic,graphs=x,size=3", "graphs='x'.*; unknown parameter 'size'"),
        ("synthetic,features=99999999", "features=99999999; the limit is 1,000"),
        ("synthetic,graphs=999999999999", "graphs=999999999999; the limit is 100,000,000"),
        (f"synthetic,graphs={'9' * 5000}", "at most 400 characters, not 5017"),
        (f"tu:{'A' * 300}", "is not the name of a TU data set"),
    ],
)
def test_invalid_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(DataUsageError, match=message):
        parse_name(text)
