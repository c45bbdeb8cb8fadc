"""Starts Debian's Redis for tests, and stops and starts it again on the same port."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REDIS = shutil.which("redis-server")


class RedisServer:
    """A Redis on a port of this machine, with its files in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it answers."""
        assert REDIS is not None
        self._process = subprocess.Popen(
            [REDIS, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *self.options],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as asked:
                    asked.sendall(b"PING\r\n")
                    if asked.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                assert time.monotonic() < deadline, "redis-server did not start"
            time.sleep(0.01)

    def stop(self) -> None:
        """Kill it; what it did not write to a file is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def redis_served(folder: Path, *options: str) -> Iterator[RedisServer]:
    """Serve until the block is left; skips the test where there is no redis-server."""
    if REDIS is None:
        pytest.skip("there is no redis-server (Debian: apt install redis-server)")
    pytest.importorskip("redis", reason="the extra redis is not installed")
    server = RedisServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
