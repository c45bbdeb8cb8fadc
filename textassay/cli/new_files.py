"""New files: those that a model writes for people to edit, and errors of writing any."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from textassay.cli.exits import Stopped
from textassay.runtime.errors import BudgetReached, ConfigurationError, ModelError, StorageError
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings


def check_new_file(path: Path, kind: str) -> None:
    """Refuse a path before anything is asked.

    Args:
        path: Where the file is to be written.
        kind: What it holds, such as `tree`.

    Raises:
        ConfigurationError: It is there already, has no folder, or ends in neither `.toml` nor
            `.json`.
    """
    from textassay.methods.library.toml import SUFFIXES

    if path.suffix not in SUFFIXES:
        raise ConfigurationError(
            f"a {kind} is saved as {' or '.join(SUFFIXES)}, not as {str(path)!r}"
        )
    # before the model is asked: what it writes is paid for
    if path.exists():
        raise ConfigurationError(f"{path} exists; {kind}s are edited by hand and never overwritten")
    if not path.resolve().parent.is_dir():
        raise ConfigurationError(f"{path}: there is no folder {path.parent}")


@asynccontextmanager
async def opened_models(
    models: Mapping[str, str], settings: Settings
) -> AsyncIterator[dict[str, Model]]:
    """Open models by role, under one budget, and close them at the end of the block.

    Raises:
        Stopped: A model could not be asked or gave nothing usable; see its cause.
    """
    from textassay.evaluation.opening import open_models, open_store
    from textassay.runtime.connected import with_store

    async with AsyncExitStack() as stack:
        connected = await open_models(models, settings, stack)
        store = await open_store(settings, None, stack)
        try:
            yield {role: with_store(model, store) for role, model in connected.items()}
        except (ModelError, BudgetReached) as error:
            raise Stopped from error


@contextmanager
def io_errors(path: Path) -> Iterator[None]:
    """Turn an error of writing a file within the block into one that names it.

    Raises:
        StorageError: The disk is full, or the folder cannot be written to.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}") from error
