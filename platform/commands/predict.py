"""Score a data set with the weights of a finished run.

  permlab predict RUN --dataset qm9,limit=1000 --out predictions.parquet

RUN is a run's folder, its name (sum-d10-s0, or SWEEP/sum-d10-s0), its key (or the beginning of it), an MLflow run id,
or a model that MLflow keeps (models:/NAME@ALIAS, models:/NAME/VERSION). All graphs of the data set are scored; if it is
the one that the run was trained on, also each part of its split. A run that was trained with your own code needs it
again: --code mine.py:MyReadout; it is never loaded because the run names it.
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
    parser.add_argument("--out", help="Parquet file for split, graph_id, y, prediction, probability")
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
    parts, probabilities = finished.parts(store), finished.probabilities(predictions)
    by_part = {part: finished.measure(predictions, store, parts == part) for part in dict.fromkeys(parts) if part}
    if args.out:
        columns = {"split": parts} if by_part else {}
        columns |= {"graph_id": store.graph_id} | columns_of(store.y, predictions, store.targets)
        if probabilities is not None:
            scored = columns_of(store.y, probabilities, store.targets)
            columns |= {name.replace("prediction", "probability", 1): scored[name] for name in scored if name[0] == "p"}
        try:
            pa.parquet.write_table(pa.table(columns), args.out)
        except (OSError, pa.ArrowInvalid) as error:
            raise RunError(f"--out {args.out} cannot be written: {error}") from None
    if args.json:
        document = {"run": args.run, "dataset": dataset, "graphs": len(store), "metrics": metrics, "splits": by_part}
        print_json(without_nan(document))
        return 0
    out.print(f"{finished.settings.name} on {dataset}, all {len(store):,} graphs: {_text(metrics)}", markup=False)
    if not by_part:
        out.print("the run was trained on another data set", markup=False)
    for part, measured in by_part.items():
        out.print(f"  {part}, {int((parts == part).sum()):,} graphs: {_text(measured)}", markup=False)
    if args.out:
        logits = "prediction is the logit, probability its probability"
        says = logits if probabilities is not None else "prediction is the model's output, in the units of y"
        out.print(f"{args.out}: {says}", markup=False)
    return 0


def _text(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
