"""The cache on object storage: `PERMLAB_CACHE=s3://bucket/folder`, or any address that pyarrow.fs opens.

    FOLDER/manifest.json          written last: a data set exists whole or not at all
    FOLDER/DIGEST/shard-…, ….npy  never changed: a rebuilt data set has another digest

Every machine copies a data set once to its local disk, checks each file against its digest, and maps it from there.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.manifest import FILE_NAME, FORMAT, CacheBroken, Manifest, read_manifest
from permlab.datasets.places import remote_address
from permlab.datasets.seal import unsealed
from permlab.datasets.sources.base import Progress

CHUNK = 4 * 2**20


class RemoteFolder:
    """One data set's place on object storage."""

    def __init__(self, address: str, folder: str) -> None:
        import pyarrow as pa
        from pyarrow.fs import FileSystem

        self.address = address
        try:
            self.files, root = FileSystem.from_uri(address)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            reason = " ".join(str(error).split())
            raise DataUsageError(f"PERMLAB_CACHE={address} cannot be opened: {reason}") from None
        self.root = f"{root.rstrip('/')}/{folder}"

    @classmethod
    def of(cls, folder: str) -> "RemoteFolder | None":
        address = remote_address()
        return cls(address, folder) if address else None

    def digest(self, name: str) -> str | None:
        """The digest of the stored data set; None if there is none in this format, or its manifest is damaged."""
        with self._one_line(name):
            document = self._manifest()
        try:
            manifest = unsealed(json.loads(document)) if document else {}
            return str(manifest["digest"]) if manifest["format"] == FORMAT else None
        except (ValueError, KeyError):
            return None

    def upload(self, folder: Path, manifest: Manifest, progress: Progress) -> None:
        total, done = sum(entry.bytes for entry in manifest.files), 0
        with self._one_line(manifest.name):
            self.files.create_dir(f"{self.root}/{manifest.digest}", recursive=True)
            for entry in manifest.files:
                target = f"{self.root}/{manifest.digest}/{entry.file}"
                with (folder / entry.file).open("rb") as source, self.files.open_output_stream(target) as stream:
                    while block := source.read(CHUNK):
                        stream.write(block)
                done += entry.bytes
                progress(done, total)
            with self.files.open_output_stream(f"{self.root}/{FILE_NAME}") as stream:
                stream.write((folder / FILE_NAME).read_bytes())

    def download(self, folder: Path, name: str, progress: Progress) -> bool:
        """Copy the stored data set to `folder`, checked; False if there is none, or one in another format. The caller
        holds the folder's lock.
        """
        with self._one_line(name):
            document = self._manifest()
            if document is None or unsealed(json.loads(document))["format"] != FORMAT:
                return False
            scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.building-", dir=folder.parent))
            try:
                copy = scratch / "copy"
                copy.mkdir()
                self._copy(unsealed(json.loads(document)), copy, name, progress)
                (copy / FILE_NAME).write_bytes(document)
                read_manifest(copy, name)
                if folder.exists():
                    folder.rename(scratch / "replaced")
                copy.rename(folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        return True

    def _manifest(self) -> bytes | None:
        try:
            with self.files.open_input_stream(f"{self.root}/{FILE_NAME}") as stream:
                content: bytes = stream.read()
                return content
        except FileNotFoundError:
            return None

    def _copy(self, manifest: dict[str, Any], folder: Path, name: str, progress: Progress) -> None:
        entries = [*manifest["shards"], *manifest["arrays"], *manifest.get("lists", [])]
        total, done = sum(entry["bytes"] for entry in entries), 0
        for entry in entries:
            source = f"{self.root}/{manifest['digest']}/{entry['file']}"
            target = folder / Path(entry["file"]).name  # a manifest names files beside it, never elsewhere
            digest = hashlib.sha256()
            try:
                with self.files.open_input_stream(source) as stream, target.open("wb") as file:
                    while block := stream.read(CHUNK):
                        digest.update(block)
                        file.write(block)
                        done += len(block)
                        progress(done, total)
            except FileNotFoundError:
                raise CacheBroken(f"{source} on {self.address} is missing", name) from None
            if digest.hexdigest() != entry["sha256"]:
                raise CacheBroken(f"{source} on {self.address} does not match its digest", name)

    @contextmanager
    def _one_line(self, name: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError):
            raise CacheBroken(f"{self.root}/{FILE_NAME} on {self.address} does not read as a manifest", name) from None
        except OSError as error:
            raise DataError(f"the cache on {self.address} cannot be used: {' '.join(str(error).split())}") from None
