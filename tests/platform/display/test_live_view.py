"""The live view of a sweep on screens of two sizes, and the lines that a log gets instead."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.cells import cell_len

from permlab.platform.display import console, live_view
from permlab.platform.display.console import PlainConsole
from permlab.platform.display.live_view import Ended, SweepView, UnderWay
from permlab.platform.run.histories import history_line


@dataclass
class Standing:
    finished: int = 0
    failed: int = 0
    under_way: dict[str, UnderWay] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    stopping: str = ""


def sweep(folder: Path, running: int, ended: int) -> Standing:
    standing = Standing(finished=ended)
    for i in range(running):
        path = folder / str(i) / "history.jsonl"
        path.parent.mkdir()
        path.write_text(history_line({"epoch": 3, "train/running_loss": 1.0, "holdout/mae": 0.5}) if i else "")
        standing.under_way[str(i)] = UnderWay(f"long/path/to/mine.py:MyOwnVeryLongReadout-d100-s{i}", path, 300)
    standing.ended = [Ended(f"sum-d10-s{i}", "finished", "300 of 300", f"holdout MAE 0.{i}", 7.0) for i in range(ended)]
    return standing


Screen = Callable[[int, int], None]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    def make(width: int, height: int) -> None:
        for name, value in {"TERM": "xterm", "COLUMNS": str(width), "LINES": str(height), "FORCE_COLOR": "1"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("NO_COLOR", raising=False)
        use(PlainConsole(stderr=True))

    def use(made: PlainConsole) -> None:
        monkeypatch.setattr(console, "err", made)
        monkeypatch.setattr(live_view, "err", made)

    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    use(PlainConsole(stderr=True))
    return make


def shown(view: SweepView) -> list[str]:
    with live_view.err.capture() as captured:
        live_view.err.print(view.drawn)
    return re.sub(r"\x1b\[[\d;]*m", "", captured.get()).splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
@pytest.mark.parametrize(("running", "ended"), [(2, 0), (2, 3), (60, 40)])
def test_it_fits_on_the_screen(
    screen: Screen, tmp_path: Path, width: int, height: int, running: int, ended: int
) -> None:
    screen(width, height)
    view = SweepView("x", 100)
    view.update(sweep(tmp_path, running, ended), lambda: 5000.0)
    lines = shown(view)
    assert len(lines) < height and all(cell_len(line) <= width for line in lines), lines
    assert f"{ended} of 100 cells, {running} running" in lines[0] and "about 1:23:20 left" in lines[0]
    assert re.search(r"adout-d100-s0 +starting", lines[1])  # the end of a long name is what differs
    assert re.search(r"adout-d100-s1 +running +3 of 300 .* holdout MAE 0.5000", lines[2])
    if ended:
        assert any(re.search(rf"sum-d10-s{ended - 1} +finished +300 of 300 .*took 0:07", line) for line in lines)
    if running > 30:
        (more,) = [line for line in lines if "more running" in line]
        assert int(more.split()[1]) + sum("100-s" in line for line in lines) == running


def test_what_stops_is_said_at_once_and_only_once(screen: Screen, tmp_path: Path, capsys) -> None:
    screen(80, 24)
    view, standing = SweepView("x", 9), sweep(tmp_path, 2, 0)
    standing.stopping = "stopping"
    for _ in range(3):
        view.last_drawn = 0
        view.update(standing, lambda: None)
    assert capsys.readouterr().err.count("stopping: 2 cells are saving their state") == 1
    assert any("stopping: 2 cells are saving their state" in line for line in shown(view))


def test_a_log_gets_one_line_per_cell_and_nothing_to_move_a_cursor(screen: Screen, tmp_path: Path, capsys) -> None:
    view, standing = SweepView("x", 9), sweep(tmp_path, 1, 2)
    standing.ended.append(Ended("alpha0-d9-s0", "failed", "", "the loss is nan", None))
    with view:
        view.update(standing, lambda: 60.0)
        view.update(standing, lambda: 60.0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and "\x1b" not in "".join(lines)
    assert lines[1].startswith("x: sum-d10-s1 finished: holdout MAE 0.1; 2 of 9 cells, 1 running")
    assert lines[2].startswith("x: alpha0-d9-s0 failed: the loss is nan; ")
    (tmp_path / "0" / "history.jsonl").write_text(history_line({"epoch": 8, "train/running_loss": 1.0}))
    view.last_noted -= 61  # a minute later
    view.update(standing, lambda: 60.0)
    assert capsys.readouterr().err.rstrip().endswith("-s0 in epoch 9 of 300")
