"""Starts Debian's Redis for tests, and stops and starts it again at the same address."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import until

REDIS = shutil.which("redis-server")


class RedisServer:
    """A Redis that listens on a socket file in a folder of its own.

    A port could be taken by another process between the moment when it is chosen and the moment
    when Redis binds it, or while Redis is stopped.
    """

    def __init__(self, folder: Path, sockets: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.socket = sockets / "redis.sock"
        self.url = f"unix://{self.socket}?db=0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it answers."""
        assert REDIS is not None
        listen = ["--port", "0", "--unixsocket", str(self.socket)]
        self._process = subprocess.Popen(
            [REDIS, *listen, "--save", "", *self.options],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )
        until(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "redis-server ended"
        try:
            with socket.socket(socket.AF_UNIX) as asked:
                asked.settimeout(10)
                asked.connect(str(self.socket))
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
    # addresses of sockets end at 107 bytes, and the folders of tests have long names
    with tempfile.TemporaryDirectory(prefix="redis-") as sockets:
        server = RedisServer(folder, Path(sockets), *options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
