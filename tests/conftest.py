"""Shared by all tests: the project's own server, and a guard that keeps every test off the
network."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from examples.mock_server import MockServer, Options, serve
from tests.browser import browsing
from textassay.runtime.calls.adaptation import KNOWN

LOOPBACK = {"127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "", None}

StartServer = Callable[..., Awaitable[MockServer]]


class NetworkTouched(RuntimeError):
    """A test tried to reach another machine."""


def keep_off_the_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse all name lookups and connections except to this machine."""
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in LOOPBACK:
        raise NetworkTouched(f"a test tried to reach {host!r}")


# how long an example takes, or how fast its data are drawn, says how busy the machine is; the whole
# suite has eight minutes, and hypothesis would draw 100 examples. The gate draws the same examples
# each time, so that it refuses a change for what the change did; elsewhere each run draws others.
settings.register_profile(
    "any load",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=40,
    derandomize="CI" in os.environ,
)
settings.load_profile("any load")

# xdist runs one worker per core; libraries that take all cores for each of them wait for each
# other.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# where a test asks for two threads all the same, they sleep instead of spinning on a core that the
# other worker needs: a forest took up to sixty times as long
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

sys.addaudithook(keep_off_the_network)


@pytest.fixture(autouse=True)
def forget_models() -> None:
    """Forget what another test has learned about a server with the same port."""
    KNOWN.clear()


def pytest_configure(config: pytest.Config) -> None:
    """Collect the files of one folder one after the other, regardless of the order of arguments.

    pytest 9.1 loses the fixtures of `tests/cli` if another folder's file stands between two of its
    own on the command line (pytest-dev/pytest#14997).
    """
    config.args.sort(key=lambda name: name.partition("::")[0].rpartition("/")[0])


def pytest_collection_finish() -> None:
    """Collect garbage less often, and without looking at ten thousand tests and their modules.

    It took a tenth of the suite's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One worker more than cores: a fifth of the suite's time is spent waiting.

    It waits for processes that tests start, for browsers and for servers.
    """
    return 1 + (yield)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One browser for all tests of pages; starting it takes a second."""
    with browsing(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest_asyncio.fixture
async def mock_server() -> AsyncIterator[StartServer]:
    """Start servers with the given options; they stop when the test ends."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(**options: Any) -> MockServer:
            return await stack.enter_async_context(serve(Options(**options)))

        yield start
