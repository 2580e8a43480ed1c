"""Can the tracking store be used? For `permlab doctor`."""

import os
import sqlite3
import time
from contextlib import closing
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPBasicAuthHandler as BasicAuth
from urllib.request import HTTPPasswordMgrWithDefaultRealm, OpenerDirector, build_opener

from permlab.platform.doctor.finding import BROKEN, NOTE, OK, PATIENCE, Finding
from permlab.platform.errors import SettingError
from permlab.platform.settings.folders import usable_folder
from permlab.platform.tracking.store import sqlite_file


def check_store(uri: str) -> Finding:
    if uri.startswith("http"):
        return _server(uri)
    if path := sqlite_file(uri):
        return _sqlite(uri, path)
    if uri.startswith("postgresql"):
        return _database(uri)
    fix = "set MLFLOW_TRACKING_URI to http(s)://…, postgresql://… or sqlite:///…"
    return Finding("tracking", NOTE, f"{uri}: not checked", fix)


def _sqlite(uri: str, path: Path) -> Finding:
    """Is the file an intact MLflow database, and may we write to it?"""
    if not path.exists():
        try:
            usable_folder(str(path.parent))
        except SettingError as error:
            return Finding("tracking", BROKEN, str(error), "name another folder, or set MLFLOW_TRACKING_URI")
        return Finding("tracking", OK, f"{uri} (created by the first run)")
    fix = "move it away: the next run creates a new one, and permlab deliver fills it from the runs folder"
    if not path.is_file() or not os.access(path, os.W_OK):
        return Finding("tracking", BROKEN, f"{path} cannot be written to", "make it writable, or move it away")
    deadline = time.monotonic() + PATIENCE
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=PATIENCE)) as database:
            (runs,) = database.execute("SELECT count(*) FROM runs").fetchone()
            database.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if str(error) != "interrupted":  # otherwise the file is large, and good as far as we got
            return Finding("tracking", BROKEN, f"{path} is not an MLflow database: {error}", fix)
        state = "ok"
    if state != "ok":
        return Finding("tracking", BROKEN, f"{path} is damaged: {' '.join(state.split())[:200]}", fix)
    return Finding("tracking", OK, f"{uri}: {runs} runs")


def _server(uri: str) -> Finding:
    """An MLflow server: its version, and whether it lets us in. A user and password in its address take precedence."""
    parts = urlsplit(uri)
    user = unquote(parts.username or "") or os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    password = unquote(parts.password or "") or os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    opener = _opener(address, user, password)
    try:
        with opener.open(f"{address}/version", timeout=PATIENCE) as answer:
            theirs = answer.read(100).decode(errors="replace").strip()
        opener.open(f"{address}/api/2.0/mlflow/experiments/search?max_results=1", timeout=PATIENCE).close()
    except HTTPError as error:
        if error.code in (401, 403):
            fix = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            who = f"user {user}" if user else "anonymous users"
            return Finding("tracking", BROKEN, f"{uri} refuses {who} ({error.code} {error.reason})", fix)
        return Finding("tracking", BROKEN, f"{uri} answers {error.code} {error.reason}", "is it an MLflow server?")
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        return Finding("tracking", BROKEN, f"{uri} cannot be reached: {reason}", "start it, or set MLFLOW_TRACKING_URI")
    ours = version("mlflow")
    server = f"MLflow {theirs} at {address}, as {user or 'an anonymous user'}"
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        return Finding("tracking", NOTE, server, f"this machine has MLflow {ours}; use the same version on both sides")
    return Finding("tracking", OK, server)


def _opener(uri: str, user: str, password: str) -> OpenerDirector:
    passwords = HTTPPasswordMgrWithDefaultRealm()
    if user:
        passwords.add_password(None, uri, user, password)
    return build_opener(BasicAuth(passwords))


def _database(uri: str) -> Finding:
    try:
        import psycopg
    except ImportError:
        return Finding("tracking", BROKEN, "PostgreSQL's driver is missing", "pip install 'permlab[postgres]'")
    try:
        plain = "postgresql://" + uri.partition("://")[2]
        with psycopg.connect(plain, connect_timeout=PATIENCE) as connection:
            row = connection.execute("SELECT current_user, current_setting('server_version')").fetchone()
    except psycopg.Error as error:
        reason = " ".join(str(error).split())[:200]
        return Finding("tracking", BROKEN, f"{uri} cannot be reached: {reason}", "check MLFLOW_TRACKING_URI")
    user, theirs = row or ("?", "?")
    return Finding("tracking", OK, f"PostgreSQL {theirs} at {uri}, as {user}")
