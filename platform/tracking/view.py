"""The view that the dashboard opens with: runs in groups, the mean curves of the headline metric first.

MLflow keeps a shared view as JSON, deflated, in a tag of the experiment; a link opens it by its key. Its fields are not
documented: they are those of ExperimentPageUIState in the source of its dashboard (MLflow 3.17).
"""

import base64
import json
import zlib
from collections.abc import Iterable
from typing import Any

KEY = "permlab"
TAG = f"mlflow.sharedViewState.{KEY}"
PAGE = "#/experiments/{}/runs?workflowType=machine_learning"
WITH_VIEW = f"&compareRunsMode=CHART&viewStateShareKey={KEY}"
MEASURED = ("holdout", "holdout_perm", "validation")  # charts without data are hidden
ONCE = "whole_run/"  # what is measured once per run: sorts after the splits, whose curves come first

Groups = Iterable[dict[str, Any]]  # dataset, method and d of each


def place_of(experiment: Any) -> str:
    """The address of an experiment's page on the dashboard: with the view, if it has one.

    MLflow's own first page of an experiment is that for language models.
    """
    return PAGE.format(experiment.experiment_id) + WITH_VIEW * (TAG in experiment.tags)


def shared_view(objectives: list[dict[str, Any]], groups: Groups = (), query: str = "") -> str:
    """The value of the tag. `objectives`: what the runs measure, as in their tag `objective`; `groups`: those that the
    list of runs shows in one row each; `query`: the runs that are shown.
    """
    headlines = {
        each["headline"]: each["metrics"].get(each["headline"], [each["headline"], False]) for each in objectives
    }
    groups = list(groups)
    names = ["method", "d"] if len({group["dataset"] for group in groups}) < 2 else ["dataset", "method", "d"]
    first = f"holdout/{next(iter(headlines))}"
    return _deflated(
        {
            "searchFilter": query,
            "orderByKey": f"metrics.`{first}`",
            "orderByAsc": not next(iter(headlines.values()))[1],
            "selectedColumns": [
                *(f"metrics.`{split}/{name}`" for name in headlines for split in MEASURED),
                "attributes.`Duration`",
            ],
            "groupBy": {
                "aggregateFunction": "average",
                "groupByKeys": [{"mode": "tag", "groupByData": name} for name in names],
            },
            "groupsExpanded": {",".join(f"tag.{name}.{group[name]}" for name in names): False for group in groups}
            | {",".join(f"tag.{name}" for name in names): True},  # runs of no group: the sweep itself
            "useGroupedValuesInCharts": True,
            "runListHidden": True,  # the charts name and colour the groups; the list would take half of a small screen
            "runsHiddenMode": "SHOW_ALL",
            "hideEmptyCharts": True,
            "isAccordionReordered": True,
            "compareRunCharts": [
                _chart(kind, f"{split}/{name}", name)
                for name in headlines
                for kind in ("LINE", "BAR")
                for split in MEASURED
            ],
            "compareRunSections": [
                *(
                    _section(name, f"{label}, mean over seeds", columns=2, cardHeight=270)
                    for name, (label, _) in headlines.items()
                ),
                *(_section(split, split) for split in (*MEASURED, "train")),
            ],
        }
    )


def _chart(kind: str, metric: str, section: str) -> dict[str, Any]:
    common: dict[str, Any] = {"uuid": f"{kind} {metric}", "type": kind, "metricKey": metric, "metricSectionId": section}
    common |= {"deleted": False, "isGenerated": False}
    if kind == "BAR":
        return common
    axes = {"xAxisKey": "step", "xAxisScaleType": "linear", "scaleType": "linear", "selectedXAxisMetricKey": ""}
    return (
        common
        | axes
        | {"selectedMetricKeys": [metric], "lineSmoothness": 0, "yAxisKey": "metric", "yAxisExpressions": []}
    )


def _section(uuid: str, name: str, **layout: int) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": name,
        "display": True,
        "isReordered": False,
        "deleted": False,
        "isGenerated": False,
    } | layout


def _deflated(state: dict[str, Any]) -> str:
    return "deflate;" + base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()
