"""The view of a tuning: every trial's curve as it was judged, its final value, and the settings that led there."""

from typing import Any

from permlab.platform.tracking.view import ONCE, SCALE, bar, chart, deflated, line, section

VALUE = f"{ONCE}objective"  # the mean over the trial's seeds; pruned trials have none
JUDGED = "objective"  # as the pruner sees it: over the epochs of the first seed, or over seeds


def tuning_view(trials: list[dict[str, Any]], query: str) -> str:
    """The value of the tag. `trials`: run.json of one trial per study; `query`: the runs that are shown."""
    measure = " or ".join(dict.fromkeys(trial["measure"] for trial in trials))
    settings = [name for name in trials[0]["searched"] if all(name in trial["searched"] for trial in trials)]
    together = {"selectedParams": ["method", *settings], "selectedMetrics": [VALUE], "showAllRuns": False}
    charts = [
        line(JUDGED, "trials"),
        bar(VALUE, "trials"),
        chart("PARALLEL", VALUE, "together") | together,
        *(chart("SCATTER", f"{name} {VALUE}", "each") | _against(name) for name in settings),
    ]
    sections = [
        section("trials", f"{measure} of the trials") | SCALE,
        section("together", "Settings together") | SCALE | {"columns": 1},
        section("each", "Settings one by one") | SCALE,
    ]
    columns = [
        f"metrics.`{VALUE}`",
        "tags.`state`",
        *(f"params.`{name}`" for name in settings),
        "attributes.`Duration`",
    ]
    return deflated(
        {
            "searchFilter": query,
            "orderByKey": columns[0],
            "orderByAsc": not trials[0]["maximise"],
            "selectedColumns": columns,
            "runsHiddenMode": "SHOW_ALL",  # else only the first ten trials
            "runListHidden": True,
            "compareRunCharts": charts,
            "compareRunSections": sections,
            "isAccordionReordered": True,
            "hideEmptyCharts": True,
        }
    )


def _against(setting: str) -> dict[str, Any]:
    return {"xaxis": {"key": setting, "type": "PARAM"}, "yaxis": {"key": VALUE, "type": "METRIC"}}
