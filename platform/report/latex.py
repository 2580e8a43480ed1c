"""The paper's tables as LaTeX, to be put into a paper by \\input; needs the package booktabs."""

from permlab.platform.report.blocks import Entry, Section, Table

SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "–": "--",
    "✓": r"$\bullet$",
    "✗": r"$\circ$",
}
LEGEND = r"% Small print: the paper's number; $\bullet$ stands for ✓ and $\circ$ for ✗."


def to_latex(sections: list[Section]) -> str:
    """The tables, and the text of their sections as comments."""
    sections = [section for section in sections if any(table.latex for table in section.tables)]
    said = [block for section in sections for block in section.blocks if isinstance(block, str)]
    tables = [table for section in sections for table in section.tables if table.latex]
    comments = [f"% {' '.join(text.split())}" for text in said]
    return "\n\n".join(["\n".join([*comments, LEGEND]), *(_table(table) for table in tables)]) + "\n"


def _table(table: Table) -> str:
    lines = [
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{escape(table.title)}}}",
    ]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}", r"\toprule"]
    lines += [" & ".join(map(escape, table.header)) + r" \\", r"\midrule"]
    for row in table.rows:
        lines.append(" & ".join(_entry(entry) for entry in row) + r" \\")
        notes = [escape(entry.note) if isinstance(entry, Entry) else "" for entry in row]
        if any(notes):
            lines.append(" & ".join(rf"{{\tiny {note}}}" if note else "" for note in notes) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def _entry(entry: Entry | str) -> str:
    if isinstance(entry, str):
        return escape(entry)
    return rf"\textbf{{{escape(entry.text)}}}" if entry.bold else escape(entry.text)


def escape(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in " ".join(text.split()))
