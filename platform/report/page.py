"""The report as one HTML file: it contains its styles, its script and its data, and loads nothing else."""

import json
from dataclasses import asdict
from html import escape
from pathlib import Path

from permlab.platform.display.palette import styles_of
from permlab.platform.report.blocks import Block, Entry, Figure, Items, Section, Table, methods_in
from permlab.platform.report.picture import COLUMNS, document, script_template

HERE = Path(__file__).parent
FILES = (  # page.js makes them
    '<button type="button" data-file="csv">data as CSV</button> '
    '<button type="button" data-file="py">this plot as Python</button>'
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def to_page(title: str, subtitle: str, sections: list[Section]) -> str:
    figures = [figure for section in sections for figure in section.figures]
    links = "".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{(HERE / "page.css").read_text()}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p><nav aria-label="Sections">{links}</nav></header>
<main>
<div id="legend" role="group" aria-label="Show or hide methods in all figures"></div>
{"".join(_section(section) for section in sections)}
</main>
<div id="tip" role="status" hidden></div>
<script type="application/json" id="data">{_data(figures)}</script>
<script>
{(HERE / "page.js").read_text()}</script>
</body>
</html>
"""


def _section(section: Section) -> str:
    body = "\n".join(_block(block) for block in section.blocks)
    return f'<section id="{section.name}"><h2>{escape(section.title)}</h2>\n{body}</section>\n'


def _block(block: Block) -> str:
    if isinstance(block, str):
        return f"<p>{escape(block)}</p>"
    if isinstance(block, Items):
        heading = f"<h3>{escape(block.title)}</h3>" if block.title else ""
        return f"{heading}<ul>{''.join(f'<li>{escape(line)}</li>' for line in block.lines)}</ul>"
    if isinstance(block, Figure):
        return _figure(block)
    return _table(block)


def _figure(figure: Figure) -> str:
    names = [f'<p class="name">{escape(panel.title)}</p>' for panel in figure.panels]
    if len(names) == 1:
        names = [""]  # the figure's own title is enough
    panels = "".join(f'<div class="panel">{name}<svg aria-hidden="true"></svg></div>' for name in names)
    return (
        f'<figure id="{figure.name}"><figcaption><h3>{escape(figure.title)}</h3></figcaption>'
        f'<div class="panels" role="img" aria-label="{escape(figure.alt)}" style="--columns:{figure.columns}">{panels}'
        f"</div><noscript><p>{escape(figure.alt)}</p></noscript>"
        f'<p class="caption">{escape(figure.caption)}</p><p class="files">{FILES}</p></figure>'
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "".join(f"<tr>{''.join(_entry(entry, i == 0) for i, entry in enumerate(row))}</tr>\n" for row in table.rows)
    inner = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    if table.folded:
        return f"<details><summary>{escape(table.title)}</summary>{inner}</details>"
    return f"<h3>{escape(table.title)}</h3>{inner}"


def _entry(entry: Entry | str, first: bool) -> str:
    tag = 'th scope="row"' if first else "td"
    if isinstance(entry, str):
        return f"<{tag}>{escape(entry)}</{tag[:2]}>"
    text = f"<strong>{escape(entry.text)}</strong>" if entry.bold else escape(entry.text)
    look = {True: "note good", False: "note bad", None: "note"}[entry.good]
    note = f'<span class="{look}">{escape(entry.note)}</span>' if entry.note else ""
    return f"<{tag}>{text}{note}</{tag[:2]}>"


def _data(figures: list[Figure]) -> str:
    """Figures, the methods' styles, and the script of a figure without its data; safe inside a script element."""
    styles = styles_of(methods_in(figures))
    content = {
        "styles": {method: asdict(style) for method, style in styles.items()},
        "figures": [{name: part for name, part in document(f, styles).items() if name != "styles"} for f in figures],
        "columns": COLUMNS,
        "template": script_template(),
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
