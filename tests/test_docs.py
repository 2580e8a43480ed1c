"""README and docs/ are true: commands parse, settings exist, Python runs, links lead somewhere."""

import importlib
import re
import shlex
import shutil
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from permlab.datasets.catalogue import SOURCES, parse_name
from permlab.platform.bench.settings import BENCHES
from permlab.platform.cli import VERBS, main
from permlab.platform.commands.tune import TuningSettings
from permlab.platform.errors import ConfigError
from permlab.platform.plugins.code import load
from permlab.platform.plugins.names import codes_among
from permlab.platform.plugins.resolve import readout_named
from permlab.platform.reproduce.settings import ReproduceSettings
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import describe, load_data, read_settings, recipes
from permlab.readouts.catalogue import build

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), ROOT / "infra" / "README.md"]
TASKS = ["data", "adversarial", "run", "sweeps", "cluster", "tuning", "report", "readouts", "theory", "extending"]
TASKS += ["speed", "security", "python", "league", "reproduction"]
SETTINGS: dict[str, Any] = {"train": RunSettings, "config": RunSettings, "sweep": SweepSettings, "tune": TuningSettings}
SETTINGS["reproduce"] = ReproduceSettings
MODELS = [RunSettings, SweepSettings, TuningSettings, *BENCHES.values()]
KEYS = {key for model in MODELS for key, _, _ in describe(model)}
PARAMETERS = {name for source in SOURCES.values() for name in source.__dataclass_fields__}
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, *languages: str) -> list[str]:
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", page.read_text(), re.M | re.S)


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def spans(page: Path) -> list[str]:
    """The code spans within sentences and tables."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page))]


def shell_lines(page: Path) -> Iterator[str]:
    """Each command of the shell blocks; in console blocks those after the prompt."""
    for block in blocks(page, "bash"):
        yield from block.replace("\\\n", " ").splitlines()
    for block in blocks(page, "console"):
        yield from (line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ "))


def calls(page: Path) -> Iterator[list[str]]:
    """The words after `permlab`, however it is started. In a sentence a verb alone is its name, not a call."""
    inline = [span for span in spans(page) if span.startswith("permlab ") and "…" not in span]
    inline = [f"{span} --help" if span.count(" ") == 1 else span for span in inline]
    for line in (*shell_lines(page), *inline):
        words = shlex.split(line, comments=True)
        if words[:1] == ["permlab"]:
            yield words[1:]
        elif "permlab.platform.cli" in words:
            yield words[words.index("permlab.platform.cli") + 1 :]
        elif "infra/slurm/sweep.sbatch" in words:
            yield ["sweep", *words[words.index("infra/slurm/sweep.sbatch") + 1 :]]


def check_words(verb: str, args: Namespace) -> None:
    """Check what the parser leaves to the command: settings, names of data sets and readouts."""
    if verb in SETTINGS:
        read_settings(SETTINGS[verb], args.words)
    elif verb == "bench":
        read_settings(BENCHES[args.topic], args.words)
    elif verb == "data" and args.name:
        load_data(",".join(args.name))
        parse_name(",".join(args.name))
    elif verb == "predict" and args.dataset:
        parse_name(args.dataset)
    elif verb == "certify" and args.words:
        readout, options = named(args.words[0])
        build(readout, d=2, max_nodes=3, **options)
    elif verb == "readouts":
        for name in args.names:
            named(name)
    if verb == "predict":
        for head in args.code:
            load(head)


def named(method: str) -> tuple[Any, dict[str, Any]]:
    """The readout and its options, if there is such a one."""
    for head in codes_among([method]):
        load(head)
    return readout_named(method)


@pytest.fixture
def files_of_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of docs/examples, and the YAML files that the pages show, in the working directory; the first line of a
    YAML file is its name.
    """
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES:
        shutil.copy(example, tmp_path)
    for page in PAGES:
        for block in blocks(page, "yaml"):
            name = re.match(r"# (\S+\.yaml)\n", block)
            assert name, f"{page.name}: a YAML block does not say which file it is"
            Path(name[1]).write_text(block)


@pytest.mark.usefixtures("files_of_the_pages")
@each_page
def test_every_command_parses(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in VERBS:
        command = importlib.import_module(f"permlab.platform.commands.{verb}")
        monkeypatch.setattr(command, "run", lambda args, verb=verb: check_words(verb, args) or 0)
    for call in calls(page):
        words = [Path(word).name if word.endswith(".yaml") else word for word in call]
        words = [word.replace("$PERMLAB_STUDIES", "sqlite:///studies.db") for word in words]
        try:
            code = main(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
        assert code == 0, f"{page.name}: permlab {shlex.join(call)}"


def accepted(word: str) -> bool:
    key, _, value = word.partition("=")
    if key in PARAMETERS and "." not in key:
        return True
    for model in MODELS:
        try:
            read_settings(model, [word])
        except ConfigError:
            continue
        return True
    return key in KEYS and not value


@pytest.mark.usefixtures("files_of_the_pages")
@each_page
def test_every_setting_exists(page: Path) -> None:
    groups = {key.partition(".")[0] for key in KEYS if "." in key}
    for span in spans(page):
        # not Python's True and False, nor the placeholder `value`
        if re.fullmatch(r"[a-z_]+(\.[a-z_]+)*=(?!True|False|value)\S*", span):
            assert accepted(span), f"{page.name}: {span}"
        elif re.fullmatch(rf"({'|'.join(groups)})\.[a-z_]+", span):
            assert span in KEYS, f"{page.name}: {span}"
        elif re.fullmatch(r"(quick|paper)(-[a-z0-9]+)?", span):
            assert span in recipes(), f"{page.name}: {span}"


@each_page
def test_every_variable_of_the_environment_is_read_somewhere(page: Path) -> None:
    files = [file for part in ("platform", "datasets", "infra") for file in (ROOT / part).rglob("*") if file.is_file()]
    source = b"".join(file.read_bytes() for file in files if file.suffix not in (".md", ".pyc"))
    for name in set(re.findall(r"PERMLAB_[A-Z_]+", page.read_text())):
        assert name.encode() in source, f"{page.name}: {name}"


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_every_link_and_path_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"
    for span in spans(page):
        if re.fullmatch(r"(platform|readouts|datasets|tasks|infra|docs|tests)/[\w/.-]*", span):
            assert (ROOT / span).exists(), f"{page.name}: {span}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


def test_extending_shows_a_readout_as_it_is_in_its_file_and_leads_to_every_example() -> None:
    page = ROOT / "docs" / "extending.md"
    assert blocks(page, "python")[0] == (ROOT / "docs" / "examples" / "my_readout.py").read_text()
    for example in EXAMPLES:
        assert example.name in page.read_text()


@each_page
def test_code_is_fenced(page: Path) -> None:
    """The tests above read fenced blocks only."""
    assert not re.search(r"^    +(permlab|make|python|infra/)", prose(page), re.M)


def test_there_is_one_page_per_task_and_readme_leads_to_each() -> None:
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} == set(TASKS)
    for task in TASKS:
        assert f"](docs/{task}.md)" in README.read_text()


def test_readme_is_short_and_shows_the_two_commands() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 150
    assert {line.split("  ")[0] for line in shell_lines(README)} >= {"make sweep", "make test"}
