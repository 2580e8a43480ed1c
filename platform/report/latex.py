"""The paper's tables as LaTeX, to be put into a paper by \\input; needs the package booktabs, no more."""

import unicodedata

from permlab.platform.report.blocks import Entry, Items, Section, Table

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
    "[": "{[}",  # after a line's end it would be an option
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "✓": r"$\bullet$",
    "✗": r"$\circ$",
}
USE = r"\usepackage{booktabs} and \input this file; a table is \ref{tab:DATASET-METRIC-dWIDTH}."
TOGETHER = 10  # tables without a page break: LaTeX gives up when it holds back many
WIDE = 6  # columns
CAPITAL = ("GAMMA", "DELTA", "THETA", "LAMBDA", "XI", "PI", "SIGMA", "UPSILON", "PHI", "PSI", "OMEGA")
SMALL = (*CAPITAL, "ALPHA", "BETA", "EPSILON", "ZETA", "ETA", "IOTA", "KAPPA", "MU", "NU", "RHO", "TAU", "CHI")
GREEK = {"GREEK CAPITAL": CAPITAL, "GREEK SMALL": SMALL}
ACCENTS = set("\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0327")
LEGEND = r"Small print: the paper's number; $\bullet$ stands for ✓ and $\circ$ for ✗."


def to_latex(sections: list[Section]) -> str:
    """The tables, and as comments the text of their sections and what differs from the paper's recipe."""
    own = [section for section in sections if any(table.label for table in section.tables)]
    lists = [block for section in sections for block in section.blocks if isinstance(block, Items) and block.recipe]
    said = [block for section in own for block in section.blocks if isinstance(block, str)]
    said += [f"{items.title}: {'; '.join(items.lines)}." for items in lists]
    tables = [table for section in own for table in section.tables if table.label]
    comments = [f"% {' '.join(text.split())}" for text in [USE, *said, LEGEND]]
    parts = ["\n".join(comments)]
    for i, table in enumerate(tables):
        parts += [r"\clearpage"] * (i > 0 and i % TOGETHER == 0) + [_table(table)]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    """It may stand here, at the top, at the bottom or on a page of floats; seven methods need small print."""
    size = r"\footnotesize" if len(table.header) <= WIDE else r"\scriptsize"
    lines = [
        r"\begin{table}[htbp]",
        rf"\centering{size}\setlength{{\tabcolsep}}{{2pt}}",
        rf"\caption{{{escape(table.title)}}}",
        rf"\label{{tab:{table.label}}}",
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
    return "".join(SPECIAL.get(letter) or _plain(letter) for letter in " ".join(text.split()))


def _plain(letter: str) -> str:
    """ASCII and accented letters as they are, Greek ones in maths, the code point of any other: LaTeX would stop."""
    parts = unicodedata.normalize("NFD", letter)
    if parts[0].isascii() and ACCENTS.issuperset(parts[1:]):
        return letter
    kind, _, name = unicodedata.name(letter, "").replace("LAMDA", "LAMBDA").partition(" LETTER ")
    if name in GREEK.get(kind, ()):
        return rf"$\{name.title() if kind == 'GREEK CAPITAL' else name.lower()}$"
    return f"{{[}}U+{ord(letter):04X}]"
