"""One colour, dash and marker per method, the same in every picture and on every page.

The seven colours were chosen to maximise the smallest distance between any two, as seen with normal vision,
protanopia, deuteranopia and tritanopia, among those with a contrast of at least 3:1 on white and on the dark page.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from permlab.readouts.names import NAMES, methods_in_order

COLOURS = ("#c32d2d", "#0f96ff", "#879678", "#c378b4", "#d27800", "#871eff", "#b400b4")
MARKERS = ("circle", "square", "cross", "diamond", "up", "down", "plus")
DASHES = ((), (6.0, 3.0), (2.0, 2.0), (8.0, 2.0, 2.0, 2.0))  # lengths of lines and gaps


@dataclass(frozen=True)
class Style:
    colour: str
    marker: str
    dash: tuple[float, ...]


def styles_of(methods: Iterable[str]) -> dict[str, Style]:
    """A style for each method, in the order of the legend: built-in readouts always have the same, whatever else is
    compared; others take the next ones by name. The first 196 differ.
    """
    places = {name: place for place, name in enumerate(NAMES)}
    ordered = methods_in_order(methods)
    for method in ordered:
        places.setdefault(method, len(places))
    return {method: _style(places[method]) for method in ordered}


def _style(place: int) -> Style:
    """The paper's seven have a colour each; the others share them, distinguished by dashes and markers."""
    turn, colour = divmod(place, len(COLOURS))
    return Style(COLOURS[colour], MARKERS[(colour + turn) % len(MARKERS)], DASHES[turn % len(DASHES)])
