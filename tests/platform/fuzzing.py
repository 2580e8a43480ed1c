"""A grammar of `permlab` calls: verbs, settings and options, with valid and invalid values."""

import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from permlab.platform.bench.settings import BENCHES
from permlab.platform.cli import VERBS
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import describe
from permlab.platform.tuning.settings import TuneSettings
from permlab.readouts.names import NAMES

NUMBERS = ["0", "1", "2", "7", "-1", "0.5", "1e-3", "010", "1_0", "0x1F", "1e400", "nan", "-inf", "99999999", "9" * 30]
WORDS = ["", " ", "a b", "a\nb", "true", "none", "null", "~", "sum", "cpu", "2026-11-16"]
SIGNS = ["ä→", ":x:", "[bold]", "[/red]", "%s{}", "*"]
TREES = ["{a: 1}", "{a: {b: [1]}}", "&a [*a]", "!!binary aGk=", "[]", "[1,2]", "[1,[2]]", "[", "'", "[true]"]
LONG = ["9" * 5000, "a" * 300, "[" * 5000, "a," * 300]
PATHS = ["../../x", ".", "..", "/proc/nowhere", "a.file", "a.file/x", "runs", "nowhere", "bad.yaml", "\\", "~/x"]
ADDRESSES = ["postgresql://me:pw@127.0.0.1:1/x", "sqlite:////proc/x.db", "http://127.0.0.1:1", "host=h password=x"]
VALUES = [NUMBERS, NUMBERS, WORDS, SIGNS, TREES, LONG, PATHS, ADDRESSES]
FILES = {
    "bad.yaml": "a: [",
    "mine.yaml": "d: 3\ntrain: {epochs: 1}\n",
    "self.yaml": "readout: &a {x: *a}\n",
    "list.yaml": "- 1\n",
    "odd.yaml": "1: {2: 3}\nd: !!timestamp 2020-01-01\n",
    "mine.csv": "smiles,y\nCC,1\nCCC,2\nC,0.5\nCCCC,3\nCO,4\nCCO,5\n",
    "bad.csv": "smiles,y\nnot a molecule,x\n",
    "empty.csv": "",
    "a.file": "\0\xff",
    "result.json": '{"bench": "train"}',
}
TINY = {"A": "1, 2\n2, 1\n3, 4\n4, 3\n", "graph_indicator": "1\n1\n2\n2\n3\n4\n5\n", "graph_labels": "1\n0\n1\n0\n1\n"}
SMALL = ["dataset=synthetic,graphs=40,max_nodes=6", "train.epochs=1", "track=false"]


PLAUSIBLE = {
    bool: ["true", "false"],
    int: ["1", "2", "5"],
    float: ["0", "0.3", "1e-2"],
    type(None): ["none", "1", "0.2"],
}


def keys(model: type, prefix: str = "") -> dict[str, list[str]]:
    """Every setting, with valid values."""
    values = {}
    for key, default, _ in describe(model):
        inner = default[0] if isinstance(default, list) and default else default
        values[f"{prefix}{key}"] = PLAUSIBLE.get(type(inner), [str(inner)])
    return values


RUN_KEYS = keys(RunSettings) | {
    "dataset": [],  # drawn by Grammar.dataset
    "method": list(NAMES),
    "readout.kernels": ["9"],
    "readout.key": ["ones", "spark:9"],
    "readout.sigma": ["2"],
    "readout.x": [],
    "modle.x": [],
    "train": [],
    "": [],
}
SWEEP_KEYS = (
    keys(SweepSettings)
    | keys(TuneSettings, "tune.")
    | {
        "dataset": [],
        "method": [*NAMES, "[sum,sort]"],
        "d": ["[1,2]", "3"],
        "tune.space.train.learning_rate": ["{low: 0.1, high: 0.2}", "[0.1]"],
        "tune.space": [],
        "tune.x": [],
    }
)


class Grammar:
    """Draws calls in a folder; the same seed gives the same calls. `real`: also calls that start servers and Ray."""

    def __init__(self, seed: int, folder: Path, real: bool) -> None:
        self.random, self.folder, self.real = random.Random(seed), folder, real

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def some(self, draw: Callable[[], str], most: int) -> list[str]:
        return [draw() for _ in range(self.random.randint(0, most))]

    def value(self) -> str:
        return self.random.choice(self.random.choice(VALUES))

    def dataset(self) -> str:
        if self.random.random() < 0.2:
            return self.pick("proteins_full", "tu:MUTAG", "tu", "qm8", "tu:../x", f"table:{self.value()}", self.value())
        kind = self.pick("synthetic", "table:mine.csv", "table:bad.csv", "table:empty.csv", "tu:TINY")
        options = ["graphs", "max_nodes", "min_nodes", "features", "task", "target", "skip_invalid", "x"]
        parameters = [f",{self.pick(*options)}={self.pick('1', '9', '30', 'true', self.value())}" for _ in range(2)]
        return kind + "".join(parameters[: self.random.randint(0, 2)])

    def setting(self, names: dict[str, list[str]]) -> str:
        key = self.pick(*names)
        valid = [self.dataset()] if key == "dataset" else names[key]
        return f"{key}={self.pick(*valid) if valid and self.random.random() < 0.7 else self.value()}"

    def settings(self, names: dict[str, list[str]]) -> list[str]:
        files = ["bad.yaml", "mine.yaml", "self.yaml", "list.yaml", "odd.yaml", "a.file"]
        return [
            *self.some(lambda: self.setting(names), 3),
            *self.some(lambda: self.pick(*files), 1)[: self.random.randint(0, 1)],
        ]

    def options(self, *names: str) -> list[str]:
        def option() -> str:
            if self.random.random() < 0.1:
                return self.pick("--nonsense", "-x", "--json=1", "--", f"--runs={self.value()}")
            return self.pick(*names, "--json")

        return self.some(option, 2)

    def call(self) -> list[str]:
        verb = self.pick(*VERBS)
        if self.random.random() < 0.03:
            return self.some(self.value, 2)
        words: list[str] = getattr(self, verb)()
        for place, word in enumerate(words):  # options may stand anywhere
            if word.startswith("--"):
                words.insert(self.random.randint(0, len(words)), words.pop(place))
        return [verb, *words]

    def data(self) -> list[str]:
        return [
            self.pick("list", "build", "info", "verify", "path", "x"),
            self.dataset(),
            *self.options("--force", f"--seed={self.value()}"),
        ]

    def readouts(self) -> list[str]:
        return self.options()

    def certify(self) -> list[str]:
        sizes = [f"--n={self.pick('1', '2', '2', self.value())}", f"--d={self.pick('1', '2', '2', self.value())}"]
        effort = ["--samples=100", "--steps=2", "--seconds=1", "--budget=9"]
        key = [f"--key={self.pick('ones', 'spark', 'spark:9', 'gaussian:3', '1,0;0,1', self.value())}"]
        option = [f"{self.pick('kernels', 'sigma', 'key', 'x')}={self.value()}"]
        return [
            self.pick(*NAMES),
            *sizes,
            *effort,
            *self.random.choice([[], key, option, ["--minimal", "--seconds=0"], ["--gamma"]]),
            *self.options(),
        ]

    def train(self) -> list[str]:
        return [*SMALL, *self.settings(RUN_KEYS), *self.options("--fresh")]

    def config(self) -> list[str]:
        return ["show", *self.settings(RUN_KEYS), *self.options()]

    def sweep(self) -> list[str]:
        """With --plan or nowhere to write, so that Ray does not start; with `real` sometimes without either."""
        end = [] if self.real and self.random.random() < 0.2 else [self.pick("--plan", "runs=/proc/nowhere")]
        return [*SMALL, *self.settings(SWEEP_KEYS), *end, *self.options()]

    def tune(self) -> list[str]:
        return [*SMALL, *self.settings(SWEEP_KEYS), "runs=/proc/nowhere", *self.options()]

    def reproduce(self) -> list[str]:
        return [*self.settings(SWEEP_KEYS), "runs=/proc/nowhere", *self.options("--search-only")]

    def reproduction(self) -> list[str]:
        """From no sweep at all, or from one that is not there: written into this folder."""
        named = self.some(lambda: self.pick("--default", "--fitted", "--search") + f"={self.value()}", 2)
        return ["--docs=docs", *named, *self.options(f"--runs={self.value()}")]

    def status(self) -> list[str]:
        return [*self.some(self.value, 1), *self.options(f"--runs={self.value()}")]

    def report(self) -> list[str]:
        return [self.value(), *self.options(f"--runs={self.value()}", f"--out={self.value()}")]

    def predict(self) -> list[str]:
        """A run that an earlier call left, or a value that is not a run."""
        runs = sorted(path.name for path in self.folder.glob("runs/cells/*"))
        run = self.pick(*runs) if runs and self.random.random() < 0.6 else self.value()
        return [run, *self.options(f"--runs={self.value()}", f"--dataset={self.dataset()}", f"--out={self.value()}")]

    def deliver(self) -> list[str]:
        return [*self.some(lambda: f"runs={self.pick('runs', 'nowhere', 'a.file', self.value())}", 1), *self.options()]

    def doctor(self) -> list[str]:
        return [*([] if self.real else [f"--nonsense={self.value()}"]), *self.options()]

    def ui(self) -> list[str]:
        return [
            f"--port={self.pick('99999', '-1', '0x', 'x', '1e3', '65536')}",
            *self.options(f"--runs={self.value()}"),
        ]

    def bench(self) -> list[str]:
        wrong = self.pick("repeats=0", "runs=a.file", "--from=result.json", "--from=nowhere", "--picture=x.gif")
        return [
            self.pick(*BENCHES, "x"),
            wrong,
            *self.some(lambda: self.setting({"d": ["2"], "method": ["sum"], "threads": ["1"], "x": []}), 2),
        ]


def calls(seed: int, count: int, folder: Path, real: bool = False) -> Iterator[list[str]]:
    grammar = Grammar(seed, folder, real)
    yield from (grammar.call() for _ in range(count))


def prepare(folder: Path) -> dict[str, str]:
    """Writes the files that calls may name; returns an environment that keeps calls inside this folder and offline."""
    for name, text in FILES.items():
        (folder / name).write_bytes(text.encode("latin-1"))
    with zipfile.ZipFile(folder / "TINY.zip", "w") as archive:
        for part, text in TINY.items():
            archive.writestr(f"TINY_{part}.txt", text)
    closed_port = "http://127.0.0.1:1"
    own = {"PERMLAB_MIRROR": str(folder), "PERMLAB_CACHE": str(folder / "cache"), "HOME": str(folder)}
    return own | {"http_proxy": closed_port, "https_proxy": closed_port}
