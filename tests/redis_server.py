"""Starts Debian's Redis for tests, and stops and starts it again on the same port."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import free_port, until

REDIS = shutil.which("redis-server")


class RedisServer:
    """A Redis on a port of this machine, with its files in a folder."""

    def __init__(self, folder: Path, socket_file: Path, *options: str) -> None:
        self.folder, self.socket_file, self.options = folder, socket_file, options
        self.port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        """Address of its socket on this machine."""
        return f"unix://{self.socket_file}?db=0"

    def start(self) -> None:
        """Start it, and return when it answers."""
        known = self.port
        until(lambda: self._started(known or free_port()))

    def _started(self, port: int) -> bool:
        """Start it on a port; return whether it is this process that answers there.

        Redis cannot choose a port itself: another process may have taken it since it was found
        free, and then Redis ends.
        """
        assert REDIS is not None
        self.port = port
        self._process = process = subprocess.Popen(
            [
                *(REDIS, "--port", str(port), "--bind", "127.0.0.1", "--save", ""),
                *("--unixsocket", str(self.socket_file), *self.options),
            ],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )
        until(lambda: process.poll() is not None or self._answers())
        return process.poll() is None

    def _answers(self) -> bool:
        assert self._process is not None
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as asked:
                asked.sendall(b"INFO server\r\n")
                return f"process_id:{self._process.pid}\r".encode() in asked.recv(8192)
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
    # not in the test's own folder, whose path may be longer than the name of a socket can be
    with tempfile.TemporaryDirectory() as short:
        server = RedisServer(folder, Path(short) / "redis", *options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
