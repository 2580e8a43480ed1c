"""One colour, dash and marker per method, the same in every picture and on every page.

The seven colours were searched for the largest smallest distance between any two, as seen with normal vision,
protanopia, deuteranopia and tritanopia, among those with a contrast of at least 3:1 on white and on the dark page.
"""

from dataclasses import dataclass

from permlab.readouts.names import NAMES

COLOURS = ("#c32d2d", "#0f96ff", "#879678", "#c378b4", "#d27800", "#871eff", "#b400b4")
MARKERS = ("circle", "square", "cross", "diamond", "up", "down", "plus")
DASHES = ((), (6.0, 3.0), (2.0, 2.0))  # lengths of lines and gaps


@dataclass(frozen=True)
class Style:
    colour: str
    marker: str
    dash: tuple[float, ...]


def style_of(method: str) -> Style:
    """The paper's seven have a colour each; the others share them, distinguished by dashes and markers."""
    place = NAMES.index(method)
    colour, turn = place % len(COLOURS), place // len(COLOURS)
    return Style(COLOURS[colour], MARKERS[(colour + turn) % len(MARKERS)], DASHES[turn])
