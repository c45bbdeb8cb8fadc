"""Starts Debian's Redis for tests, and stops and starts it again on the same port."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import free_port, until

REDIS = shutil.which("redis-server")


class RedisServer:
    """A Redis on a port of this machine, with its files in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.port = free_port()
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
        until(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "redis-server ended"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as asked:
                asked.sendall(b"PING\r\n")
                return asked.recv(16).startswith(b"+PONG")
        except OSError:
            return False

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
