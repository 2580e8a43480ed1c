"""The same sections as Markdown, LaTeX and pictures."""

import csv
import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from permlab.platform.display.palette import styles_of
from permlab.platform.report import drawing
from permlab.platform.report.answers import answers_section
from permlab.platform.report.blocks import Entry, Figure, Items, Panel, Section, Series, Table
from permlab.platform.report.drawing import place, ranges
from permlab.platform.report.findings import Findings
from permlab.platform.report.latex import to_latex
from permlab.platform.report.markdown import to_markdown
from permlab.platform.report.page import to_page
from permlab.platform.report.picture import document, draw
from permlab.platform.report.sections import SECTIONS
from permlab.platform.report.tables import tables_section
from permlab.readouts.names import PAPER_METHODS

ENTRY = Entry("0.8 ± 0.1", bold=True, note="paper 0.9 ✓", good=True)
TABLE = Table("A_B 5 % & more", ["", "sum"], [["hold|out", ENTRY]], label="tab")
CURVE = Series("sum", [1.0, 2.0, 3.0], [0.5, 0.1, 0.01], [0.4, -0.1, -5.0], [0.6, 0.3, 5.0], markers=False)


def test_markdown_escapes_and_shows_all_blocks() -> None:
    figure = Figure("f", "A figure", "What it shows", [Panel("p", "x", "y", [CURVE])])
    text = to_markdown("T", [Section("s", "S", ["a <b> *c*", Items(["one"], "Head"), TABLE, figure])])
    assert "a &lt;b&gt; \\*c\\*" in text and "### Head\n\n* one" in text
    assert "| hold\\|out | **0.8 ± 0.1**<br><sub>paper 0.9 ✓</sub> |" in text
    assert "![What it shows](figures/f.png)" in text


def test_latex_is_balanced_and_has_one_table_per_metric_and_width(sweep) -> None:
    text = to_latex([tables_section(Findings(sweep))])
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3 * 2 + 2  # three metrics and one, at two d
    assert r"PROTEINS\_full, AUC, d = 10" in text
    body = re.sub(r"\\.", "", "\n".join(line for line in text.splitlines() if not line.startswith("%")))
    assert body.count("{") == body.count("}") and body.count("$") % 2 == 0
    for line in text.splitlines():
        if line.endswith(r"\\") and not line.startswith("%"):
            assert line.count("&") - line.count(r"\&") == 7


def test_latex_escapes_what_latex_reads() -> None:
    text = to_latex([Section("s", "S", [TABLE])])
    assert r"A\_B 5 \% \& more" in text and r"\textbf{0.8 $\pm$ 0.1}" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_pdflatex_compiles_the_tables(sweep, tmp_path: Path) -> None:
    """All of a report, names that LaTeX could misread, and more tables than it holds back."""
    odd = [Table(NASTY, ["", NASTY], [[NASTY[-20:], Entry("1", note="[2]")]], label=f"odd-{i}") for i in range(60)]
    greek = Table("ζ and Γ, λ, é, 統", ["", "ς"], [["[1]", "µ"], ["*", "Ł"]], label="greek")
    text = to_latex([tables_section(Findings(sweep)), Section("s", NASTY, [*odd, greek])])
    (tmp_path / "tables.tex").write_text(text)
    refs = " ".join(rf"\ref{{{label}}}" for label in re.findall(r"\\label{(.*?)}", text))
    assert r"\ref{tab:proteins-full-auc-d10}" in refs
    body = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{refs}\input{{tables}}\end{{document}}"
    (tmp_path / "paper.tex").write_text(body)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stdout[-1500:]
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000
    assert "undefined" not in done.stdout and "multiply defined" not in done.stdout


NASTY = "<img src=x onerror=alert(1)> [a](javascript:b) `c` *d* | e ~f~\n\\end{table} $g$"
NAMED = [
    Table(NASTY, ["", NASTY], [[NASTY, Entry(NASTY, bold=True, note=NASTY)]], label="tab"),
    Items([NASTY], NASTY),
    Figure("f", NASTY, NASTY, [Panel(NASTY, NASTY, NASTY, [CURVE])], caption=NASTY),
    NASTY,
]


def test_markdown_shows_a_name_as_it_is() -> None:
    """Read by a Markdown library: no image but the figure, no link, the name letter by letter."""
    read = MarkdownIt("commonmark").enable(["table"]).render(to_markdown(NASTY, [Section("s", NASTY, NAMED)]))
    page = ElementTree.fromstring(f"<page>{read.replace('<br>', '<br/>')}</page>")
    assert [image.get("src") for image in page.iter("img")] == ["figures/f.png"]
    assert not {node.tag for node in page.iter()} & {"a", "script", "code"}
    shown = "".join(page.itertext())
    assert shown.count(" ".join(NASTY.split())) == 12 and len(list(page.iter("td"))) == 2


def test_latex_shows_a_name_as_it_is() -> None:
    text = to_latex([Section("s", NASTY, NAMED)])
    tables = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert tables.count(r"\textless{}img src=x onerror=alert(1)\textgreater{} {[}a](javascript:b)") == 5
    assert not set("<>|") & set(tables) and tables.count(r"\end{table}") == 1
    body = re.sub(r"\\.", "", tables)
    assert body.count("{") == body.count("}") and "$" not in body


def test_the_page_cannot_be_broken_by_a_name() -> None:
    nasty = "</script><script>alert(1)</script>"
    figure = Figure("f", nasty, nasty, [Panel(nasty, nasty, nasty, [CURVE])])
    text = to_page(
        nasty, nasty, [Section("s", nasty, [nasty, Items([nasty]), Table(nasty, [nasty], [[nasty]]), figure])]
    )
    assert text.count("<script") == 2 and "alert(1)</script>" not in text


def spans(*panels: Panel) -> list:
    """(low, high, zero) of x and y, as they are drawn."""
    return ranges(document(Figure("f", "", "", list(panels)), styles_of(["sum"]))["panels"])


def test_axes_reach_the_points_but_not_the_end_of_every_bar() -> None:
    (((x, y),), ((_, log_y),)) = (spans(Panel("", "", "", [CURVE], y_log=flag)) for flag in (False, True))
    assert x[0] < 1 and x[1] > 3 and -1 < y[0] < -0.1 and 0.6 < y[1] < 1.5
    assert 0 < log_y[0] < 0.01 and log_y[1] > 0.5


@pytest.mark.parametrize("log", [False, True])
@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 3), min_size=1, max_size=8))
def test_whatever_is_drawn_lies_inside_its_axis(log: bool, points: list[tuple[float, float, float]]) -> None:
    """Points, ends of intervals and edges of bands, also zero and less on a logarithmic axis."""
    y, low, high = (list(values) for values in zip(*points, strict=True))
    panel = Panel("", "", "", [Series("sum", [1.0] * len(y), y, low, high)], y_log=log)
    ((_, axis),) = spans(panel)
    assert all(axis[0] <= place(value, axis, log) <= axis[1] for value in (*y, *low, *high))
    positive = [value for value in y if value > 0]
    assert all(place(value, axis, log) == pytest.approx(value) for value in (positive if log else y))


def test_zero_is_drawn_as_zero_beside_a_logarithmic_axis(tmp_path: Path) -> None:
    rows = [Series("sum", [0.0], [0.0]), Series("sort", [1e-15], [0.0])]
    panel = Panel("", "error", "", rows, "rows", x_log=True)
    ((axis, _),) = spans(panel)
    low, high, zero = axis
    assert place(0.0, axis, True) == zero and low < zero < 1e-15 < high
    draw(Figure("f", "", "alt", [panel]), tmp_path, styles_of(["sum", "sort"]))
    texts = [node.text for node in ElementTree.parse(tmp_path / "f.svg").iter() if node.tag.endswith("text")]
    assert "0" in texts


def test_ticks_fall_on_the_values_of_d(tmp_path: Path) -> None:
    curve = Series("sum", [1.0, 10.0, 50.0], [1.0, 2.0, 3.0])
    panel = Panel("", "d", "y", [curve], x_log=True, x_ticks=curve.x)
    draw(Figure("f", "", "alt", [panel]), tmp_path, styles_of(["sum"]))
    texts = [node.text for node in ElementTree.parse(tmp_path / "f.svg").iter() if node.tag.endswith("text")]
    assert texts[:3] == ["1", "10", "50"]


def test_panels_that_share_have_one_range() -> None:
    small, large = (Series("sum", [1.0, 2.0], [0.0, top]) for top in (1.0, 9.0))
    assert len({y for _, y in spans(*(Panel("", "", "", [series], share="s") for series in (small, large)))}) == 1
    assert len({y for _, y in spans(*(Panel("", "", "", [series]) for series in (small, large)))}) == 2


def test_every_figure_is_also_data_and_a_script_that_draws_the_same_picture(sweep, tmp_path: Path) -> None:
    """The script is run by itself, away from PermLab."""
    sections = [section for make in SECTIONS if (section := make(Findings(sweep)))]
    figure = next(f for section in sections for f in section.figures if f.name.startswith("certificates-p"))
    figure = dataclasses.replace(figure, title="Its ends: ''' \\' \" \\")
    draw(figure, tmp_path, styles_of(sweep.methods))
    rows = list(csv.DictReader((tmp_path / f"{figure.name}.csv").open(newline="")))
    points = [(series.method, x) for panel in figure.panels for series in panel.series for x in series.x]
    assert [row["method"] for row in rows] == [method for method, _ in points]
    assert [float(row["x"]) for row in rows] == pytest.approx([x for _, x in points], rel=1e-5)
    script = (tmp_path / f"{figure.name}.py").read_text()
    assert not re.search(r"^\s*(import|from) permlab", script, re.MULTILINE)
    away = tmp_path / "away"
    away.mkdir()
    subprocess.run([sys.executable, "-I", "-c", script], cwd=away, check=True)
    assert (away / f"{figure.name}.png").read_bytes() == (tmp_path / f"{figure.name}.png").read_bytes()


def test_the_legend_is_no_wider_than_the_picture() -> None:
    series = [dataclasses.replace(CURVE, method=method) for method in PAPER_METHODS]
    figure = Figure("f", "A figure", "alt", [Panel("p", "x", "y", series)] * 2)
    canvas = drawing.draw(document(figure, styles_of(PAPER_METHODS)))
    canvas.draw_without_rendering()
    (legend,) = canvas.legends
    assert 0 <= legend.get_window_extent().x0 < legend.get_window_extent().x1 <= canvas.bbox.x1


@pytest.mark.parametrize("kind", ["xy", "rows"])
def test_pictures_are_drawn(tmp_path: Path, kind: str) -> None:
    panel = Panel("p", "x axis", "y", [CURVE], kind, groups=[(1.0, 2.0)], zero_line=True)
    draw(Figure("f", "A figure", "alt", [panel, panel, panel]), tmp_path, styles_of(["sum"]))
    texts = {node.text for node in ElementTree.parse(tmp_path / "f.svg").iter() if node.tag.endswith("text")}
    assert {"A figure", "p", "x axis", "sum"} <= texts
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    first = (tmp_path / "f.svg").read_bytes()
    draw(Figure("f", "A figure", "alt", [panel, panel, panel]), tmp_path, styles_of(["sum"]))
    assert (tmp_path / "f.svg").read_bytes() == first


def test_the_scorecard_has_all_the_papers_numbers(sweep) -> None:
    findings = Findings(sweep)
    sections = {section.name: section for make in SECTIONS if (section := make(findings))}
    summary, numbers = sections["scorecard"].tables
    assert len(numbers.rows) == 336 and sum(row[3] != "not measured" for row in numbers.rows) == 168
    assert summary.rows[0][:2] == ["ordering", "16 of 32"]  # its permuted holdout is its holdout, and counts once
    assert {row[0]: row[1] for row in summary.rows}["augment"] == "24 of 48"
    inside = sum(row[4] == "yes" for row in numbers.rows)
    assert inside == sum(int(str(row[2]).split()[0]) for row in summary.rows) and 0 < inside < 128
    assert list(map(int, re.findall(r"\d+", str(sections["scorecard"].blocks[0]))))[:5] == [16, 336, 256, 128, inside]


def test_the_answers_name_the_best_and_what_permutation_costs(sweep) -> None:
    lists = {block.title: block.lines for block in answers_section(Findings(sweep)).blocks if isinstance(block, Items)}
    recipes = [f"{name}: what differs from the paper's recipe" for name in ("PROTEINS_full", "QM9")]
    assert list(lists) == [*recipes, "PROTEINS_full", "QM9"]
    text = " ".join(lists["PROTEINS_full"])
    assert "Best: kernels at d = 10, holdout AUC 0.763 ± 0.003 over 4 seeds." in text
    assert re.search(r"By 0\.014 over sum[^.]*not significant", text)
    (others,) = re.findall(r"At this d kernels differs significantly from ([^.]*)", text)
    assert "ordering" in others and "sum" not in others
    assert "sum, sort, set2set keep every value; identity loses 0.080" in text
    assert "By 0.0" in " ".join(lists["QM9"]) and "Best: set2set" in " ".join(lists["QM9"])  # lower is better
