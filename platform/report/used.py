"""Settings as they were used: the values of each, and which methods had them at which d."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from permlab.readouts.names import methods_in_order

Places = set[tuple[str, int]]  # method, d
Used = dict[str, dict[str, Places]]  # by setting and value, as text
MOST = 6  # values that are told with their methods


def used(cells: Iterable[tuple[str, int, Mapping[str, str]]]) -> Used:
    """`cells`: method, d and settings, as text, of each."""
    values: dict[str, dict[str, Places]] = defaultdict(lambda: defaultdict(set))
    for method, d, settings in cells:
        for name, value in settings.items():
            values[name][value].add((method, d))
    return {name: dict(places) for name, places in values.items()}


def told(values: Mapping[str, Places]) -> str:
    """`0.001`; where methods differ `0.001 (sum), 0.00644 (ordering at d = 1 and 10)`; of many numbers the range."""
    if len(values) == 1:
        return short(next(iter(values)))
    ordered = sorted(values, key=lambda text: (number(text) is None, number(text) or 0.0, text))
    if len(ordered) > MOST and number(ordered[-1]) is not None:
        return f"{short(ordered[0])} to {short(ordered[-1])}, by method and d"
    every: Places = set().union(*values.values())
    if all(places == every for places in values.values()):  # they differ by fold or seed
        parts = [short(value) for value in ordered[:MOST]]
    else:
        parts = [f"{short(value)} ({_places(values[value], every)})" for value in ordered[:MOST]]
    return ", ".join(parts + ["…"] * (len(ordered) > MOST))


def _places(some: Places, every: Places) -> str:
    """`sum, sort at d = 1`: the d of a method are told where others of its d are not among them."""
    parts = []
    for method in methods_in_order(method for method, _ in some):
        widths = sorted(d for name, d in some if name == method)
        whole = len(widths) == sum(name == method for name, _ in every)
        parts.append(method if whole else f"{method} at d = {listed(map(str, widths))}")
    return ", ".join(parts)


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def short(text: str) -> str:
    """A long fraction to three digits; any other value as it is."""
    value = number(text)
    return f"{value:.3g}" if value is not None and not value.is_integer() and len(f"{value:.3g}") < len(text) else text
