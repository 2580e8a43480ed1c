"""Writes all files of a report."""

from collections.abc import Callable
from pathlib import Path

from permlab.platform.display.palette import styles_of
from permlab.platform.report.blocks import methods_in
from permlab.platform.report.findings import Findings
from permlab.platform.report.latex import to_latex
from permlab.platform.report.markdown import to_markdown
from permlab.platform.report.page import to_page
from permlab.platform.report.picture import FORMATS, draw
from permlab.platform.report.sections import SECTIONS
from permlab.platform.report.stored import StoredSweep
from permlab.platform.report.tables import numbers_frame, tests_frame


def write_report(sweep: StoredSweep, folder: Path, progress: Callable[[int, int | None], None]) -> None:
    """report.html, report.md, tables.tex, tables.csv, tables.parquet, tests.csv; figures/: pictures, data, scripts."""
    findings = Findings(sweep)
    sections = [section for make in SECTIONS if (section := make(findings))]
    title = f"PermLab report: {sweep.name}"
    done = len(sweep.finished)
    subtitle = f"{done:,} of {len(sweep.cells):,} cells finished · read from {sweep.place}"
    (folder / "report.html").write_text(to_page(title, subtitle, sections))
    (folder / "report.md").write_text(to_markdown(title, sections))
    (folder / "tables.tex").write_text(to_latex(sections))
    numbers = numbers_frame(findings)
    numbers.to_csv(folder / "tables.csv", index=False)
    numbers.to_parquet(folder / "tables.parquet", index=False)
    tests_frame(findings).to_csv(folder / "tests.csv", index=False)
    figures = [figure for section in sections for figure in section.figures]
    pictures, styles = folder / "figures", styles_of(methods_in(figures))
    pictures.mkdir(exist_ok=True)
    for ending in FORMATS:
        for old in pictures.glob(f"*.{ending}"):
            old.unlink()  # of an earlier report
    for i, figure in enumerate(figures):
        draw(figure, pictures, styles)
        progress(i + 1, len(figures))
