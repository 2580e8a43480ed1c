"""Files of others: from the mirror folder, or downloaded with a size limit and a digest; untrusted archives."""

import errno
import gzip
import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from urllib.error import URLError
from urllib.request import urlopen

from permlab.datasets.errors import DataError

MAX_BYTES = 4 << 30  # limit of a download and of an unpacked zip
MAX_RATIO = 100  # unpacked size over zip size; tables of numbers have about 5
SMALL = 10 << 20  # an unpacked size that is always allowed
BLOCK = 1 << 20


def mirrored(*names: str) -> Path | None:
    """The first of these files that the folder PERMLAB_MIRROR has."""
    mirror = os.environ.get("PERMLAB_MIRROR")
    if not mirror:
        return None
    folder = Path(mirror)
    try:
        if folder.is_dir():
            return next((folder / name for name in names if (folder / name).is_file()), None)
    except PermissionError:
        pass
    raise DataError(f"PERMLAB_MIRROR={mirror} is not a folder that can be read; fix or unset it")


def fetch(url: str, target: Path, progress: Callable[[int, int | None], None], max_bytes: int = MAX_BYTES) -> None:
    """Download `url` to `target`, whole or not at all."""
    part = target.with_suffix(target.suffix + ".part")
    try:
        with urlopen(url, timeout=60) as response, part.open("wb") as file:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            done = 0
            while block := response.read(BLOCK):
                done += len(block)
                if max(done, total or 0) > max_bytes:
                    raise DataError(f"{url} is larger than {max_bytes / 2**20:,.0f} MiB, the limit of a download")
                file.write(block)
                progress(done, total)
            if total is not None and done != total:
                raise DataError(f"{url} ended after {done:,} of {total:,} bytes; try again")
        part.replace(target)
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{url} cannot be fetched ({reason}); put {target.name} into a folder and name it by PERMLAB_MIRROR"
        ) from None
    finally:
        part.unlink(missing_ok=True)


def check_md5(path: Path, url: str, published: str) -> None:
    """MD5 is what others have published of these files; it detects accidents, not a forger."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if digest != published:
        raise DataError(f"{url} has the MD5 digest {digest}, published is {published}: the file is not the known one")


def check_as_before(path: Path, url: str, ledger: Path) -> None:
    """Nobody has published a digest of this file: trust it on first use, record its digest, and compare later ones."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if not ledger.exists():
        ledger.parent.mkdir(parents=True, exist_ok=True)
        ledger.write_text(f"{digest}  {url}\n", encoding="utf-8")
    elif (before := ledger.read_text(encoding="utf-8").split()[:1]) != [digest]:
        raise DataError(
            f"{url} has the SHA-256 digest {digest}, at its first download it had {''.join(before) or 'none'}; if the "
            f"new file is right, delete {ledger}"
        )


def gunzip(archive: Path, target: Path, max_bytes: int = MAX_BYTES) -> None:
    """Unpack one file, in blocks; refuse one that grows beyond the limit."""
    try:
        with gzip.open(archive) as source, target.open("wb") as file:
            while block := source.read(BLOCK):
                if file.tell() + len(block) > max_bytes:
                    raise DataError(f"{archive} is refused: it unpacks to more than {max_bytes / 2**20:,.0f} MiB")
                file.write(block)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{archive} is not a gzip file that can be read ({error}); fetch it again") from None


def unzip(archive: Path, folder: Path, wanted: set[str], max_bytes: int = MAX_BYTES) -> None:
    """Unpack the wanted files of `archive` flat into `folder`; refuse a path that escapes, and a zip bomb."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(archive) as source:
            files = {}
            for member in source.infolist():
                path = PurePosixPath(member.filename.replace("\\", "/"))
                if path.is_absolute() or ".." in path.parts:
                    raise DataError(f"{archive} is refused: its member {member.filename!r} points out of the archive")
                if path.name in wanted:
                    files[path.name] = member
            size = sum(member.file_size for member in files.values())
            if size > max_bytes:
                raise DataError(f"{archive} is refused: it unpacks to {size / 2**20:,.0f} MiB, over the limit")
            if size > max(MAX_RATIO * archive.stat().st_size, SMALL):
                raise DataError(
                    f"{archive} is refused: it unpacks to more than {MAX_RATIO} times its size, which no data set does"
                )
            for name, member in files.items():
                # ZipFile stops at the size that the directory states, so a lying member cannot grow past it.
                with source.open(member) as reader, (folder / name).open("wb") as file:
                    shutil.copyfileobj(reader, file, BLOCK)
    except PermissionError:
        raise DataError(f"{archive} cannot be read: permission denied") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError(f"{archive} cannot be unpacked: {error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(f"{archive} is not a zip file that can be read ({error}); fetch it again") from None
