"""Estimate how long the rest of a sweep takes, from the cells that are done."""

import time
from collections import defaultdict
from collections.abc import Collection
from statistics import fmean, median

from permlab.platform.sweep.plan import OVERHEAD, Cell

EVERY = 1.0  # seconds between two estimates


class TimeLeft:
    """Seconds until `room` workers have done the rest of the cells; None until the first one is done.

    A cell is expected to take the mean time of the finished cells of its kind (dataset, method, d); without any, the
    planned time, times the median ratio of actual to planned time.
    """

    def __init__(self, cells: list[Cell], room: int) -> None:
        self.cells, self.room = cells, room
        self.estimated_at, self.left = 0.0, -1.0

    def seconds(self, started: dict[str, float], lost: Collection[str] = ()) -> float | None:
        """`started`: by key, the `time.monotonic` at which running cells began; `lost`: keys of failed cells."""
        now = time.monotonic()
        if now - self.estimated_at > EVERY or self.left < 0:
            self.estimated_at, self.left = now, self._estimate(started, lost, now)
        return self.left if self.left >= 0 else None

    def _estimate(self, started: dict[str, float], lost: Collection[str], now: float) -> float:
        """The estimate, −1 if no cell is done yet."""
        taken, ratios = defaultdict(list), []
        for cell in self.cells:
            if cell.result is not None:
                seconds = cell.result["seconds"] + OVERHEAD
                taken[_kind(cell)].append(seconds)
                ratios.append(seconds / cell.seconds if cell.seconds else 1.0)
        if not ratios:
            return -1.0
        factor, known = median(ratios), {kind: fmean(times) for kind, times in taken.items()}
        rest = []
        for cell in self.cells:
            if cell.result is None and cell.key not in lost:
                expected = known.get(_kind(cell), factor * cell.seconds)
                so_far = now - started.get(cell.key, now)
                rest.append(max(expected - so_far, 0.1 * expected))
        return max(sum(rest) / self.room, max(rest, default=0.0))


def _kind(cell: Cell) -> tuple[str, str, int, int]:
    settings = cell.settings
    return settings.dataset, settings.method, settings.d, settings.train.epochs
