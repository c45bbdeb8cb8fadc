"""What the commands share that let a model write a file for people to edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from textassay.cli.exits import Stopped
from textassay.runtime.calls.budget import Budget
from textassay.runtime.connect import ConnectedModel, connect, load_backend
from textassay.runtime.errors import BudgetReached, ConfigurationError, ModelError, StorageError
from textassay.runtime.settings import Settings

SUFFIXES = (".toml", ".json")


def check_new_file(path: Path, kind: str) -> None:
    """Refuse a path before anything is asked.

    Args:
        path: Where the file is to be written.
        kind: What it holds, such as `tree`.

    Raises:
        ConfigurationError: It is there already, has no folder, or ends in neither `.toml` nor
            `.json`.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigurationError(
            f"a {kind} is saved as {' or '.join(SUFFIXES)}, not as {str(path)!r}"
        )
    if path.exists():
        raise ConfigurationError(f"{path} exists; {kind}s are edited by hand and never overwritten")
    if not path.resolve().parent.is_dir():
        raise ConfigurationError(f"{path}: there is no folder {path.parent}")


@asynccontextmanager
async def asked(
    models: Mapping[str, str], settings: Settings
) -> AsyncIterator[dict[str, ConnectedModel]]:
    """Open models by role, under one budget, and close them at the end of the block.

    Raises:
        Stopped: A model could not be asked or gave nothing usable, as its cause tells.
    """
    async with AsyncExitStack() as stack:
        budget = Budget(settings.max_cost)
        opened: dict[str, ConnectedModel] = {}
        for role, name in models.items():
            await load_backend(name)
            opened[role] = await stack.enter_async_context(
                connect(name, settings=settings.for_role(role), budget=budget)
            )
        try:
            yield opened
        except (ModelError, BudgetReached) as error:
            raise Stopped from error


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Write a file within the block.

    Raises:
        StorageError: The disk is full, or the folder cannot be written to.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}") from error
