"""Measure this machine: ours against the plain way, in one run, in turn, on one core.

  permlab bench train     training with `permlab train` against a plain PyG + Lightning script
  permlab bench offtrack  the same with settings other than the paper's: dropout, tanh, other widths, threads, CPUs
  permlab bench engine    training without each part of the fast engine in turn: what the part gains
  permlab bench sort      readouts alone, forward and backward, against padded tensors and PyG's aggregations
  permlab bench maps      every readout, forward and backward, against PyG's own way or a padded sort
  permlab bench data      build, open and read data sets: time and memory
  permlab bench sweep     what a cell costs on its way through plan, Ray, tracking and table
  permlab bench level     how often the report's tests raise false alarms, on simulated data sets with equal methods

  permlab bench train dataset=proteins_full method=[sum,ordering] d=[1,10] --picture speed.png
  permlab bench train engine=plain model.dropout=0.1 threads=2
  permlab bench train --from runs/bench/train.json --picture speed.png

The result is also written to bench/ in the runs folder.

"""

import argparse
import importlib
from pathlib import Path
from typing import Any

from permlab.platform.bench.settings import BENCHES
from permlab.platform.display.console import print_json
from permlab.platform.errors import ConfigError
from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.settings.words import describe, read_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for topic, model in BENCHES.items():
        rows = describe(model)
        width = max(len(key) for key, _, _ in rows)
        lines = [f"  {key:<{width}}  {description} ({_short(value)})" for key, value, description in rows]
        parser.description = "\n".join([f"{parser.description}settings of {topic}:", *lines, ""])
    parser.add_argument("topic", choices=tuple(BENCHES))
    parser.add_argument("words", nargs="*", metavar="WORD", help="key=value")
    parser.add_argument("--from", dest="source", metavar="FILE", help="show a stored result instead of measuring")
    parser.add_argument("--picture", metavar="FILE", help="train: draw the ratios (.png or .svg)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def _short(value: Any) -> str:
    if value is None:
        return "none"
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)


def run(args: argparse.Namespace) -> int:
    topic = importlib.import_module(f"permlab.platform.bench.{args.topic}")
    if args.picture:
        _check_picture(args)
    if args.source:
        result = _stored(args)
    else:
        bench = read_settings(BENCHES[args.topic], args.words)
        result = topic.measure(bench)
        folder = Path(bench.runs) / "bench"
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"{args.topic}.json", result)
    try:
        if args.json:
            print_json(result)
        else:
            topic.show(result)
    except (KeyError, TypeError, AttributeError):
        if not args.source:
            raise
        raise ConfigError(
            f"{args.source!r} is damaged: it is not a whole result of permlab bench {args.topic}"
        ) from None
    if args.picture:
        from permlab.platform.bench.picture import save

        save(result, Path(args.picture))
    return 0


def _check_picture(args: argparse.Namespace) -> None:
    if args.topic != "train":
        raise ConfigError(f"--picture draws the ratios of train, not of {args.topic}")
    if Path(args.picture).suffix not in (".png", ".svg"):
        raise ConfigError(f"the picture {args.picture!r} must end in .png or .svg")
    if not Path(args.picture).parent.is_dir():
        raise ConfigError(f"the picture {args.picture!r}: there is no folder {Path(args.picture).parent}")


def _stored(args: argparse.Namespace) -> dict[str, Any]:
    if args.words:
        raise ConfigError(f"{args.words[0]}: a stored result takes no settings; leave out --from to measure")
    result = read_json(Path(args.source))
    if not result or result.get("bench") != args.topic:
        raise ConfigError(f"{args.source!r} is not a result of permlab bench {args.topic} --json")
    return result
