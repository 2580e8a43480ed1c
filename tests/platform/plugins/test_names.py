"""Names of plug-ins: one way to write each, and nothing is imported to read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permlab.platform.errors import SettingError
from permlab.platform.plugins.names import Named, codes_among, is_code, parse, plugs_in


@pytest.mark.parametrize(
    ("text", "head", "options"),
    [
        ("sum", "sum", {}),
        ("kernels,kernels=400,sigma=0.5", "kernels", {"kernels": 400, "sigma": 0.5}),
        ("pyg:SoftmaxAggregation,learn=true", "pyg:SoftmaxAggregation", {"learn": True}),
        ("pyg:QuantileAggregation,q=[0.25,0.75],interpolation=nearest", "pyg:QuantileAggregation",
         {"q": [0.25, 0.75], "interpolation": "nearest"}),
        ("mine.py:Mine", "mine.py:Mine", {}),
        ("some/folder/mine.py:Mine,width=3", "some/folder/mine.py:Mine", {"width": 3}),
    ],
)  # fmt: skip
def test_a_name_carries_options(text: str, head: str, options: dict) -> None:
    assert parse(text) == Named(head, options)
    assert parse(parse(text).text) == parse(text)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.integers(-99, 99) | st.booleans(), max_size=4))
def test_the_order_of_options_does_not_matter(options: dict) -> None:
    forwards, backwards = (Named("sum", dict(pairs)).text for pairs in (options.items(), reversed(options.items())))
    assert forwards == backwards and parse(forwards).options == options


def test_an_option_is_given_once() -> None:
    with pytest.raises(SettingError, match="width twice"):
        parse("mine.py:Mine,width=1,width=2")


def test_code_is_named_by_file_or_module() -> None:
    assert is_code("mine.py:Mine") and is_code("package.module:Mine")
    assert not any(map(is_code, ("sum", "pyg:MeanAggregation", "mine.py", ":Mine", "mine.py:")))
    assert codes_among(["sum", "a.py:A,width=2", "a.py:A", "pyg:X", "b.c:D"]) == ["a.py:A", "b.c:D"]


def test_an_unknown_word_does_not_plug_in() -> None:
    assert plugs_in("pyg:Anything", "readouts") and plugs_in("mine.py:Mine", "readouts")
    assert not plugs_in("summ", "readouts") and not plugs_in("pyg:", "readouts")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-99, 99) | st.text("abc:5.,[]{} ", max_size=6),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=5,
    )
)
def test_a_value_keeps_its_type(value: object) -> None:
    named = Named("mine.py:Mine", {"k": value})
    assert parse(named.text) == named
