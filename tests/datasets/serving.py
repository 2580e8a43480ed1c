"""A web server on loopback instead of a public one."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address under which the files of this folder are served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as instance:
        threading.Thread(target=instance.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{instance.server_port}"
        instance.shutdown()
