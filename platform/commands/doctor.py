"""Say what is here and what can be reached: versions, accelerator, cache, tracking server, Ray cluster.

  permlab doctor [--json]

With an accelerator, every readout of the paper takes a training step there and on the CPU: are the numbers the same?
Every problem comes with its fix; the exit code is 1 if something is broken.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from permlab.platform.display.console import out, print_json
from permlab.platform.doctor.checks import examine
from permlab.platform.doctor.finding import BROKEN, NOTE, OK

MARKS = {OK: "[green]ok[/green]", NOTE: "[yellow]note[/yellow]", BROKEN: "[red]broken[/red]"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    findings = list(examine(Path(args.runs)))
    broken = [finding for finding in findings if finding.state == BROKEN]
    if args.json:
        print_json({"ok": not broken, "findings": [asdict(finding) for finding in findings]})
        return 1 if broken else 0
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(MARKS[finding.state], f"[bold]{finding.name}[/bold]", escape(finding.detail))
        if finding.fix:
            table.add_row("", "", f"→ {escape(finding.fix)}")
    out.print(table)
    return 1 if broken else 0
