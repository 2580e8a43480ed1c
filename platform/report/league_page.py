"""docs/league.md: the league of a finished sweep, between two marks; what a person wrote around them stays.

league.md          the part between the marks is generated
league.png         the picture
data/league.csv    one row per cell; the page can be made again from it alone
"""

from pathlib import Path

from permlab.platform.display.palette import styles_of
from permlab.platform.errors import ConfigError
from permlab.platform.report import drawing
from permlab.platform.report.as_run import as_run
from permlab.platform.report.blocks import Figure, methods_in
from permlab.platform.report.findings import Findings
from permlab.platform.report.league import League, league_blocks
from permlab.platform.report.league_cells import read_cells, write_cells
from permlab.platform.report.markdown import block_text
from permlab.platform.report.picture import document
from permlab.platform.report.stored import StoredSweep

PAGE, PICTURE, CELLS = "league.md", "league.png", "data/league.csv"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
NEW = f"# The league\n\n{BEGIN}\n{END}\n"


def write_league(sweep: StoredSweep, folder: Path) -> Path:
    """The three files. The page is made from the stored cells, so that they give the same page again."""
    page = folder / PAGE
    text = page.read_text() if page.exists() else NEW
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ConfigError(f"{page} must have one line {BEGIN}, and after it one line {END}: the page goes between them")
    if not League(Findings(sweep)).places:
        raise ConfigError(f"no cell of {sweep.name} has finished, so there is no league")
    cells = folder / CELLS
    cells.parent.mkdir(parents=True, exist_ok=True)
    write_cells(sweep, cells)
    league = League(Findings(read_cells(cells)))
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    page.write_text(f"{before}{BEGIN}\n\n{generated(league)}\n\n{after}")
    _draw(league, folder / PICTURE)
    return page


def generated(league: League) -> str:
    """What stands between the marks."""
    sweep = league.findings.sweep
    missing = len(sweep.cells) - len(sweep.finished)
    blocks = [as_run(sweep, dataset) for dataset in dict.fromkeys(place[0] for place in league.places)]
    parts = ["## What was run", *map(block_text, blocks)]
    if missing:
        parts.append(f"Not complete: {missing} of {len(sweep.cells)} cells are missing.")
    parts += ["## Results", *(block_text(block, pictures="") for block in league_blocks(league))]
    return "\n\n".join(parts)


def _draw(league: League, path: Path) -> None:
    (figure,) = [block for block in league_blocks(league) if isinstance(block, Figure)]
    canvas = drawing.draw(document(figure, styles_of(methods_in([figure]))))
    canvas.savefig(path, dpi=110)
