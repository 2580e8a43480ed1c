"""The view that the dashboard opens with: runs in groups, the mean curves of the headline metric first.

MLflow keeps a shared view as JSON, deflated, in a tag of the experiment; a link opens it by its key. Its fields are not
documented: they are those of ExperimentPageUIState in the source of its dashboard (MLflow 3.17).
"""

import base64
import json
import zlib
from collections.abc import Iterable
from typing import Any

TAG = "mlflow.sharedViewState."  # and the key
SWEEP, TUNING = "permlab", "permlab-tuning"  # keys: an experiment may hold a sweep and the tuning before it
PAGE = "#/experiments/{}/runs?workflowType=machine_learning"
WITH_VIEW = "&compareRunsMode=CHART&viewStateShareKey={}"
MEASURED = ("holdout", "holdout_perm", "validation")  # charts without data are hidden
ONCE = "whole_run/"  # what is measured once per run: sorts after the splits, whose curves come first
SCALE = {"columns": 2, "cardHeight": 270}  # of a section whose charts fit on the first page

Groups = Iterable[dict[str, Any]]  # dataset, method and d of each


def places_of(experiment: Any) -> dict[str, str]:
    """The addresses of an experiment's pages on the dashboard: one per view, or one without.

    MLflow's own first page of an experiment is that for language models.
    """
    page, name = PAGE.format(experiment.experiment_id), experiment.name
    titles = {SWEEP: name, TUNING: f"{name} tuning"}
    views = {title: page + WITH_VIEW.format(key) for key, title in titles.items() if TAG + key in experiment.tags}
    return views or {name: page}


def shared_view(runs: list[dict[str, Any]], groups: Groups = (), query: str = "") -> str:
    """The value of the tag. `runs`: run.json of some that say what they measure; `groups`: the means over seeds to
    show, none for single runs; `query`: the runs that are shown.
    """
    groups, objectives = list(groups), objectives_of(runs)
    splits = ("train",) if all(run["params"].get("data.train_only") == "True" for run in runs) else MEASURED
    headlines = {name: each["metrics"].get(name, [name, False]) for each in objectives for name in [each["headline"]]}
    columns = [f"metrics.`{split}/{name}`" for name in headlines for split in splits]
    charts = [draw(f"{split}/{name}", name) for name in headlines for draw in (line, bar) for split in splits]
    first = [
        section(name, label + ", mean over seeds" * bool(groups)) | SCALE for name, (label, _) in headlines.items()
    ]
    _, higher_is_better = next(iter(headlines.values()))
    best_first = {"orderByKey": columns[0], "orderByAsc": not higher_is_better}
    return deflated(
        (_grouping(groups) | best_first if groups else {})
        | {
            "searchFilter": query,
            "selectedColumns": [*columns, "attributes.`Duration`"],
            "compareRunCharts": charts,
            "compareRunSections": [*first, *(section(split, split) for split in (*MEASURED, "train"))],
            "isAccordionReordered": True,  # else MLflow sorts the sections by name
            "hideEmptyCharts": True,
        }
    )


def objectives_of(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What these runs measure, as far as they have said so in run.json."""
    return [json.loads(run["tags"]["objective"]) for run in runs if "objective" in run["tags"]]


def _grouping(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs by method and d, and by data set if there are several: one row per group, the sweep's own run below them."""
    names = ["dataset", "method", "d"] if len({group["dataset"] for group in groups}) > 1 else ["method", "d"]
    keys = [{"mode": "tag", "groupByData": name} for name in names]
    closed = {",".join(f"tag.{name}.{group[name]}" for name in names): False for group in groups}
    others = {",".join(f"tag.{name}" for name in names): True}
    return {
        "groupBy": {"aggregateFunction": "average", "groupByKeys": keys},
        "groupsExpanded": closed | others,
        "useGroupedValuesInCharts": True,
        "runsHiddenMode": "SHOW_ALL",  # else only the first ten groups
        "runListHidden": True,  # the charts name the groups; the list would take half of a small screen
    }


def chart(kind: str, metric: str, section: str) -> dict[str, Any]:
    common: dict[str, Any] = {"uuid": f"{kind} {metric}", "type": kind, "metricKey": metric, "metricSectionId": section}
    return common | {"deleted": False, "isGenerated": False}


def bar(metric: str, section: str) -> dict[str, Any]:
    return chart("BAR", metric, section)


def line(metric: str, section: str) -> dict[str, Any]:
    axes = {"xAxisKey": "step", "xAxisScaleType": "linear", "scaleType": "linear", "selectedXAxisMetricKey": ""}
    lines = {"selectedMetricKeys": [metric], "lineSmoothness": 0, "yAxisKey": "metric", "yAxisExpressions": []}
    return chart("LINE", metric, section) | axes | lines


def section(uuid: str, name: str) -> dict[str, Any]:
    state = {"display": True, "isReordered": False, "deleted": False, "isGenerated": False}
    return {"uuid": uuid, "name": name} | state


def deflated(state: dict[str, Any]) -> str:
    return "deflate;" + base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()
