"""The same sections as Markdown, LaTeX and pictures."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from permlab.platform.display.palette import styles_of
from permlab.platform.report.answers import answers_section
from permlab.platform.report.blocks import Entry, Figure, Items, Panel, Section, Series, Table
from permlab.platform.report.findings import Findings
from permlab.platform.report.latex import to_latex
from permlab.platform.report.markdown import to_markdown
from permlab.platform.report.page import to_page
from permlab.platform.report.picture import draw
from permlab.platform.report.ranges import ranges
from permlab.platform.report.sections import SECTIONS
from permlab.platform.report.tables import tables_section

ENTRY = Entry("0.8 ± 0.1", bold=True, note="paper 0.9 ✓", good=True)
TABLE = Table("A_B 5 % & more", ["", "sum"], [["hold|out", ENTRY]], latex=True)
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


NASTY = "<img src=x onerror=alert(1)> [a](javascript:b) `c` *d* | e ~f~\n\\end{table} $g$"
NAMED = [
    Table(NASTY, ["", NASTY], [[NASTY, Entry(NASTY, bold=True, note=NASTY)]], latex=True),
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
    assert tables.count(r"\textless{}img src=x onerror=alert(1)\textgreater{} [a](javascript:b)") == 5
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


def test_axes_reach_the_points_but_not_the_end_of_every_bar() -> None:
    linear, log = (Figure("f", "", "", [Panel("", "", "", [CURVE], y_log=flag)]) for flag in (False, True))
    ((x, y),) = ranges(linear)
    assert x[0] < 1 and x[1] > 3 and -1 < y[0] < -0.1 and 0.6 < y[1] < 1.5
    ((_, y),) = ranges(log)
    assert 0 < y[0] < 0.01 and y[1] > 0.5


def test_panels_that_share_have_one_range() -> None:
    small, large = (Series("sum", [1.0, 2.0], [0.0, top]) for top in (1.0, 9.0))
    panels = [Panel("", "", "", [series], share="s") for series in (small, large)]
    assert len({y for _, y in ranges(Figure("f", "", "", panels))}) == 1
    assert len({y for _, y in ranges(Figure("f", "", "", [Panel("", "", "", [s]) for s in (small, large)]))}) == 2


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
    assert list(lists) == ["PROTEINS_full", "QM9"]
    text = " ".join(lists["PROTEINS_full"])
    assert "Best: kernels at d = 10, holdout AUC 0.763 ± 0.003 over 4 seeds." in text
    assert re.search(r"By 0\.014 over sum[^.]*not significant", text)
    (others,) = re.findall(r"At this d kernels differs significantly from ([^.]*)", text)
    assert "ordering" in others and "sum" not in others
    assert "sum, sort, set2set keep the value; identity loses 0.080" in text
    assert "By 0.0" in " ".join(lists["QM9"]) and "Best: set2set" in " ".join(lists["QM9"])  # lower is better
