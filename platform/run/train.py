"""Train one cell with a progress bar, while a courier delivers it to MLflow."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from permlab.platform.display.build_bar import build_if_missing
from permlab.platform.display.console import note
from permlab.platform.run.code_digest import other_code
from permlab.platform.settings.run import RunSettings
from permlab.platform.tracking.courier import Courier


def train(settings: RunSettings, fresh: bool = False, callbacks: Iterable[Any] = ()) -> dict[str, Any]:
    """Run the cell, or read its stored result; returns the document of result.json. Callbacks are Lightning's."""
    from permlab.platform.display.epoch_bar import EpochBar
    from permlab.platform.run.cell import run_cell

    build_if_missing(settings.dataset)
    couriers: list[Courier] = []

    def send(folder: Path) -> None:
        couriers.append(Courier(folder, settings.track))
        couriers[-1].send()

    def tell(folder: Path) -> None:
        note(f"{settings.name} is done already ({folder}); --fresh runs it again")

    def wait(folder: Path) -> None:
        note(f"waiting: another process is running {settings.name}")

    bar = EpochBar(settings.name, settings.train.epochs)
    try:
        result = run_cell(
            settings, fresh=fresh, callbacks=[bar, *callbacks], on_start=send, on_known=tell, on_wait=wait
        )
        if how := other_code(result):
            note(f"{settings.name} was {how}")
        return result
    finally:
        bar.progress.stop()
        for courier in couriers:
            courier.wait(seconds=60)
