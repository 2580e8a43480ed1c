"""Score a data set with the weights of a finished run.

  permlab predict RUN --dataset qm9,limit=1000 --out predictions.parquet

RUN is a run's folder, its key (or the beginning of it), an MLflow run id, or a model that MLflow keeps
(models:/NAME@ALIAS, models:/NAME/VERSION). A run that was trained with your own code needs it again: --code
mine.py:MyReadout; it is never loaded because the run names it.
"""

import argparse
from pathlib import Path

from permlab.platform.display.console import out, print_json
from permlab.platform.errors import RunError
from permlab.platform.files.json_files import without_nan
from permlab.platform.plugins.code import load
from permlab.platform.settings.words import load_data, load_installed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--dataset", help="data set to score (default: the run's own)")
    parser.add_argument("--out", help="Parquet file for graph_id, y, prediction")
    parser.add_argument("--code", action="append", default=[], metavar="CODE", help="code that the run needs, by path")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    import pyarrow as pa
    import pyarrow.parquet

    from permlab.platform.run.predict import FinishedRun, locate
    from permlab.platform.run.record import columns_of

    for head in args.code:
        load(head)
    load_data([*args.code, args.dataset])
    finished = FinishedRun.load(locate(args.run, Path(args.runs)))
    dataset = args.dataset or finished.settings.dataset
    load_installed(dataset)
    store, predictions, metrics = finished.predict(dataset)
    if args.out:
        columns = {"graph_id": store.graph_id} | columns_of(store.y, predictions, store.targets)
        try:
            pa.parquet.write_table(pa.table(columns), args.out)
        except (OSError, pa.ArrowInvalid) as error:
            raise RunError(f"--out {args.out} cannot be written: {error}") from None
    if args.json:
        print_json(without_nan({"run": args.run, "dataset": dataset, "graphs": len(store), "metrics": metrics}))
    else:
        text = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        out.print(f"{finished.settings.name} on {dataset}, {len(store):,} graphs: {text}", markup=False)
    return 0
