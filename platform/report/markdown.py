"""The report as Markdown, its pictures beside it."""

import html
import re

from permlab.platform.report.blocks import Block, Entry, Figure, Items, Section, Table


def to_markdown(title: str, sections: list[Section]) -> str:
    lines = [f"# {escape(title)}", ""]
    for section in sections:
        lines += [f"## {escape(section.title)}", ""]
        for block in section.blocks:
            lines += [block_text(block), ""]
    return "\n".join(lines)


def block_text(block: Block, pictures: str = "figures/") -> str:
    """`pictures`: their folder."""
    if isinstance(block, str):
        return escape(block)
    if isinstance(block, Items):
        heading = f"### {escape(block.title)}\n\n" if block.title else ""
        return heading + "\n".join(f"* {escape(line)}" for line in block.lines)
    if isinstance(block, Figure):
        return f"![{escape(block.alt)}]({pictures}{block.name}.png)\n\n*{escape(f'{block.title}. {block.caption}')}*"
    return _table(block)


def _table(table: Table) -> str:
    rows = [
        [*map(escape, table.header)],
        ["---"] * len(table.header),
        *([_entry(entry) for entry in row] for row in table.rows),
    ]
    return f"**{escape(table.title)}**\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _entry(entry: Entry | str) -> str:
    if isinstance(entry, str):
        return escape(entry)
    text = f"**{escape(entry.text)}**" if entry.bold else escape(entry.text)
    return f"{text}<br><sub>{escape(entry.note)}</sub>" if entry.note else text


def escape(text: str) -> str:
    """Entities for what HTML reads: not every Markdown knows a backslash before `<`."""
    text = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
