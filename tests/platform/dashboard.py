"""What the charts on a page of MLflow's dashboard show."""

import json
from pathlib import Path
from typing import Any

from tests.platform.browsing import chromium, visit

# The charts of the page: the metric and the values of every curve, and the texts of the bars.
CHARTS = """
JSON.stringify([...document.querySelectorAll(".js-plotly-plot")].map((plot) => ({
  curves: plot.data.filter((trace) => trace.mode === "lines+markers").map((trace) => [trace.metricKey, [...trace.y]]),
  bars: [...plot.querySelectorAll(".bartext")].map((node) => Number(node.textContent)),
})))
"""


# How many curves of more than one point are drawn.
CURVES = """
[...document.querySelectorAll(".js-plotly-plot")].flatMap((plot) => plot.data).filter(
  (trace) => trace.mode === "lines+markers" && trace.y.length > 1
).length
"""


async def charts_at(link: str, profile: Path, curves: int, bars: int) -> dict[str, Any]:
    """What stands on the page once so many curves and bars are drawn."""
    with chromium(profile) as address:
        async with visit(address, link, height=1200) as tab:
            await tab.until(f'document.querySelectorAll(".js-plotly-plot .bartext").length >= {bars}')
            await tab.until(f"{CURVES} >= {curves}")
            text = await tab.run("document.body.innerText")
            return {"text": text, "charts": json.loads(await tab.run(CHARTS))}
