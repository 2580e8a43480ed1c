"""What is proved of a readout as a cell built it, and what the certificate of the trained one found."""

import ast
import math
from dataclasses import asdict, dataclass
from functools import cache

import pandas as pd

from permlab.platform.report.certificates import ROUNDING
from permlab.platform.report.stored import StoredSweep

ONE_IMAGE = (
    1e-12  # images of two graphs that are closer than this share of the median distance are one, but for rounding
)
WORST = {"invariance_error": "max", "ratio_min": "min", "ratio_max": "max", "distortion": "max", "gap": "min"}
STRENGTH = {"yes": 2, "almost everywhere": 1}  # 0: anything else
PROVED = {
    "permutation_invariant": "invariant",
    "injective": "injective",
    "lipschitz": "Lipschitz",
    "bi_lipschitz": "bi-Lipschitz",
}

Place = tuple[str, int, str]  # dataset, d, method
Stated = dict[str, str]  # by the names in PROVED: "yes", "almost everywhere", "no"; a name that is not stated is absent


@dataclass(frozen=True)
class Found:
    """Extremes over the certificates of several cells; NaN where nothing was measured.

    `distortion` is the largest ratio of a cell over its smallest one: it does not depend on the map's scale, which
    differs from one trained map to the next.
    """

    invariance_error: float
    ratio_min: float
    ratio_max: float
    distortion: float
    gap: float

    @property
    def invariant(self) -> bool | None:
        return None if math.isnan(self.invariance_error) else bool(self.invariance_error <= ROUNDING)

    @property
    def collision(self) -> bool | None:
        """Whether two graphs of a holdout, with different embeddings, have one image."""
        return None if math.isnan(self.gap) else bool(self.gap <= ONE_IMAGE)


@dataclass(frozen=True)
class MapFacts:
    """`m` numbers per graph, 0 if the map could not be built again; `reference` of what is proved."""

    m: int
    stated: Stated
    reference: str
    found: Found

    @property
    def refuted(self) -> list[str]:
        """What the certificate found against a stated fact."""
        lines = []
        if self.stated.get("permutation_invariant") == "yes" and self.found.invariant is False:
            lines.append(f"is stated to be invariant; the largest error found is {self.found.invariance_error:.2g}")
        if self.stated.get("injective") == "yes" and self.found.collision:
            lines.append("is stated to be injective; two graphs of a holdout have one image")
        return lines


def facts_by_place(sweep: StoredSweep) -> dict[Place, MapFacts]:
    """Of every readout that has finished cells, by data set, d and method."""
    found = _found(sweep.finished)
    facts = {}
    for (dataset, d, method), part in sweep.finished.groupby(["dataset", "d", "method"], sort=False):
        built = [_as_built(str(method), int(d), *sizes) for sizes in sorted(set(_sizes(part)))]
        m, reference = (built[-1][0], built[-1][2]) if built else (0, "")
        facts[str(dataset), int(d), str(method)] = MapFacts(
            m, weakest([stated for _, stated, _ in built]), reference, found[str(dataset), int(d), str(method)]
        )
    return facts


def everywhere(every: list[MapFacts]) -> MapFacts:
    """What holds in all of them, and what was found at worst."""
    table = pd.DataFrame([asdict(facts.found) for facts in every])
    stated = weakest([facts.stated for facts in every])
    return MapFacts(max(facts.m for facts in every), stated, every[0].reference, Found(**table.agg(WORST)))


def weakest(every: list[Stated]) -> Stated:
    """What holds for all of them."""
    names = [name for name in PROVED if every and all(name in stated for stated in every)]
    return {name: min((stated[name] for stated in every), key=lambda word: STRENGTH.get(word, 0)) for name in names}


def _found(cells: pd.DataFrame) -> dict[Place, Found]:
    table = cells[["dataset", "d", "method"]].assign(
        **{name: cells.get(f"certificate/{name}", math.nan) for name in WORST if name != "distortion"}
    )
    table["distortion"] = table["ratio_max"] / table["ratio_min"]  # a collision of a pair gives ∞
    groups = table.groupby(["dataset", "d", "method"]).agg(WORST)
    return {(str(name), int(d), str(method)): Found(**row) for (name, d, method), row in groups.iterrows()}


def _sizes(cells: pd.DataFrame) -> list[tuple[int, str]]:
    """N and the options of the readout, as the cells were built; none of cells that did not store them."""
    if not {"max_nodes", "params"} <= set(cells):
        return []
    options = [params.get("readout", "{}") for params in cells["params"]]
    return [(int(N), text) for N, text in zip(cells["max_nodes"], options, strict=True) if pd.notna(N)]


@cache
def _as_built(method: str, d: int, max_nodes: int, options: str) -> tuple[int, Stated, str]:
    """m, what the readout states, and its reference. Code that a stored run names by path is not loaded, so nothing is
    known of such a map.
    """
    from permlab.platform.plugins.resolve import readout_named
    from permlab.readouts.base import sizes_of, stated_facts
    from permlab.readouts.catalogue import build

    try:
        readout, named = readout_named(method)
        made = build(readout, d, max_nodes, **named | ast.literal_eval(options))
    except Exception:  # somebody's own class may raise anything
        return 0, {}, ""
    words = {True: "yes", False: "no"}
    stated = {name: words.get(value, str(value)) for name, value in stated_facts(made).items()}
    return sizes_of(made)[1], stated, str(getattr(made, "reference", ""))
