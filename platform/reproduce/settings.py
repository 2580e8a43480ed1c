"""The settings of a search for the paper's recipe: a sweep's grid, by default the paper's, and the search."""

from pydantic import Field

from permlab.platform.settings.kinds import FolderName
from permlab.platform.settings.sweep import Methods, Numbers, SweepSettings
from permlab.platform.tuning.settings import TuneSettings
from permlab.readouts.names import PAPER_METHODS


class ReproduceSettings(SweepSettings):
    name: FolderName = Field("reproduce", description="name, and MLflow experiment")
    method: Methods = Field(list(PAPER_METHODS), description="readouts of the paper")
    d: Numbers = Field([1, 10, 50, 100], description="widths of the paper")
    tune: TuneSettings = Field(TuneSettings(), description="the search")
