"""The cache on object storage, against a server that speaks S3 on loopback."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
from pyarrow.fs import FileSystem

from permlab.datasets.cache import build, folder_of, verify
from permlab.datasets.catalogue import parse_name
from permlab.datasets.errors import DataError
from permlab.datasets.manifest import CacheBroken, CacheMissing
from permlab.datasets.sources.synthetic import Synthetic
from permlab.datasets.store import GraphStore

NAME = "synthetic,graphs=40"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    s3 = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    s3.start()
    host, port = s3.get_host_and_port()
    urlopen(Request(f"http://{host}:{port}/bucket", method="PUT"), timeout=30).close()
    yield f"{host}:{port}"
    s3.stop()


@pytest.fixture
def machine(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Be another machine: the same cache on S3, local copies of its own."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    address = f"s3://bucket/{tmp_path.name}?endpoint_override={server}&scheme=http&region=us-east-1"
    monkeypatch.setenv("PERMLAB_CACHE", address)

    def become(name: str) -> Path:
        monkeypatch.setenv("PERMLAB_LOCAL_CACHE", str(tmp_path / name))
        return tmp_path / name

    return become


def objects(server: str, prefix: str) -> list[str]:
    with urlopen(f"http://{server}/bucket?list-type=2&prefix={prefix}", timeout=30) as answer:
        keys = [part.split("</Key>")[0] for part in answer.read().decode().split("<Key>")[1:]]
    return [key for key in keys if not key.endswith("/")]


def change(key: str, content: bytes | None) -> None:
    files, _ = FileSystem.from_uri(os.environ["PERMLAB_CACHE"])
    if content is None:
        files.delete_file(f"bucket/{key}")
    else:
        with files.open_output_stream(f"bucket/{key}") as stream:
            stream.write(content)


def test_a_data_set_built_on_one_machine_is_read_on_another(
    machine, server: str, tmp_path: Path, caplog, monkeypatch
) -> None:
    machine("first")
    manifest = build(NAME)
    stored = objects(server, tmp_path.name)
    assert len([key for key in stored if manifest.digest in key]) == len(manifest.files)
    assert [key for key in stored if manifest.digest not in key] == [
        f"{tmp_path.name}/{parse_name(NAME).folder}/manifest.json"
    ]
    mine = GraphStore.open(NAME)
    second = machine("second")
    monkeypatch.setattr(Synthetic, "read", None)  # to build it again would fail
    with caplog.at_level(logging.INFO, logger="werkzeug"):
        for _ in range(3):
            store = GraphStore.open(NAME, build_missing=True)
    copied = [line for line in caplog.messages if "GET" in line and manifest.digest in line]
    assert len(copied) == len(manifest.files), "each file is copied once"
    assert store.folder.is_relative_to(second) and store.manifest == mine.manifest
    np.testing.assert_array_equal(store.az, mine.az)
    assert verify(NAME).digest == manifest.digest


def test_four_processes_at_once_copy_it_once(machine, tmp_path: Path) -> None:
    machine("first")
    build(NAME)
    machine("second")
    code = f"from permlab.datasets.cache import ensure; ensure({NAME!r})"
    processes = [subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ)) for _ in range(4)]
    assert [process.wait(timeout=120) for process in processes] == [0] * 4
    assert verify(NAME).graphs == 40
    assert [path.name for path in (tmp_path / "second").iterdir() if "building" in path.name] == []


def test_a_file_changed_on_the_server_is_refused(machine, server: str, tmp_path: Path) -> None:
    machine("first")
    build(NAME)
    local = folder_of(parse_name(NAME))
    key = next(key for key in objects(server, tmp_path.name) if key.endswith("y.npy"))
    content = bytearray((local / "y.npy").read_bytes())
    content[-1] ^= 1
    change(key, bytes(content))
    second = machine("second")
    with pytest.raises(CacheBroken, match=rf"y\.npy on s3://.*digest.*permlab data build {NAME} --force"):
        GraphStore.open(NAME)
    assert not list(second.glob("*/manifest.json")), "nothing is left that looks whole"
    change(key, None)
    with pytest.raises(CacheBroken, match=rf"y\.npy.*is missing.*permlab data build {NAME} --force"):
        GraphStore.open(NAME)
    build(NAME, force=True)
    machine("third")
    assert len(GraphStore.open(NAME)) == 40


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"format": 2}'])
def test_a_damaged_manifest_on_the_way_is_refused_and_replaced_by_a_build(
    machine, server: str, tmp_path: Path, content: bytes
) -> None:
    machine("first")
    build(NAME)
    (manifest,) = (key for key in objects(server, tmp_path.name) if key.endswith("manifest.json"))
    change(manifest, content)
    machine("second")
    with pytest.raises(CacheBroken, match=rf"manifest\.json.*permlab data build {NAME} --force"):
        GraphStore.open(NAME)
    machine("first")
    build(NAME)
    machine("third")
    assert len(GraphStore.open(NAME)) == 40


def test_what_the_version_before_stored_is_built_and_uploaded_again(machine, server: str, tmp_path: Path) -> None:
    """Its digest is the same, so that alone does not say that the upload is current."""
    machine("first")
    build(NAME)
    (manifest,) = (key for key in objects(server, tmp_path.name) if key.endswith("manifest.json"))
    document = json.loads((folder_of(parse_name(NAME)) / "manifest.json").read_text())
    change(
        manifest, json.dumps({key: value for key, value in document.items() if key != "seal"} | {"format": 1}).encode()
    )
    machine("second")
    with pytest.raises(CacheMissing, match="is not built"):
        GraphStore.open(NAME)
    assert len(GraphStore.open(NAME, build_missing=True)) == 40
    machine("third")
    assert len(GraphStore.open(NAME)) == 40


def test_an_upload_that_was_cut_short_does_not_count_as_built(machine, server: str, tmp_path: Path) -> None:
    machine("first")
    build(NAME)
    (manifest,) = (key for key in objects(server, tmp_path.name) if key.endswith("manifest.json"))
    change(manifest, None)
    machine("second")
    with pytest.raises(CacheMissing, match="not built"):
        GraphStore.open(NAME)
    build(NAME)
    assert manifest in objects(server, tmp_path.name)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://no-such-bucket/x?endpoint_override={server}&scheme=http&region=us-east-1", "no-such-bucket"),
        ("nonsense://bucket/x", "PERMLAB_CACHE=nonsense://bucket/x"),
    ],
)
def test_an_address_that_does_not_work_is_refused_in_one_line(
    machine, server: str, monkeypatch, address: str, message: str
) -> None:
    machine("local")
    monkeypatch.setenv("PERMLAB_CACHE", address.format(server=server))
    with pytest.raises(DataError, match=message) as raised:
        build(NAME)
    assert "\n" not in str(raised.value)


def test_a_plain_folder_may_be_an_address_too(machine, tmp_path: Path, monkeypatch) -> None:
    machine("first")
    monkeypatch.setenv("PERMLAB_CACHE", f"file://{tmp_path}/shared")
    digest = build(NAME).digest
    machine("second")
    assert GraphStore.open(NAME).manifest.digest == digest
