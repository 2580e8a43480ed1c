from collections.abc import Iterator

import pytest

from tests.readouts.cases import WAYS


@pytest.fixture(autouse=True, scope="module")
def single_threaded(one_thread: None) -> None:
    """All tests of this folder run with one thread."""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the way in which operators run during the test."""
    with WAYS[request.param]():
        yield request.param
