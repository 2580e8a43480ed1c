"""The report's sections in their order. To add one, write a function from findings to a Section and list it here."""

from collections.abc import Callable

from permlab.platform.report.answers import answers_section
from permlab.platform.report.blocks import Section
from permlab.platform.report.certificates import trained_section
from permlab.platform.report.epochs import epochs_section
from permlab.platform.report.findings import Findings
from permlab.platform.report.league import league_section
from permlab.platform.report.protocol import protocol_section
from permlab.platform.report.scorecard import scorecard_section
from permlab.platform.report.significance import luck_section
from permlab.platform.report.speed import speed_section
from permlab.platform.report.state import state_section
from permlab.platform.report.tables import tables_section
from permlab.platform.report.tradeoffs import beyond_section
from permlab.platform.report.tuning import tuning_section

SECTIONS: list[Callable[[Findings], Section | None]] = [
    answers_section,
    protocol_section,
    state_section,
    league_section,
    tables_section,
    luck_section,
    tuning_section,
    beyond_section,
    trained_section,
    epochs_section,
    scorecard_section,
    speed_section,
]
