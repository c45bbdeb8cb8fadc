"""`textassay export`: the scores of a run for Inspect, MLflow, Langfuse and promptfoo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

from textassay.cli import flags, syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import say
from textassay.cli.exits import run_async
from textassay.cli.rated import open_examples
from textassay.runtime.errors import ConfigurationError
from textassay.table import with_noun


@command("export", panel=Heading.LOOKING)
def export(
    form: Annotated[str, syntax.argument("FORMAT", "inspect, mlflow, langfuse or promptfoo.")],
    run: flags.RunArgument,
    *,
    out: Annotated[Path | None, syntax.option("FILE", "File to write.", "--out", "-o")] = None,
    to: Annotated[
        str | None, syntax.option("URL", "Server to send to, in place of a file: mlflow, langfuse.")
    ] = None,
    trace: Annotated[
        str, syntax.option("FIELD", "Field with the id of the text's trace: id, group or a column.")
    ] = "id",
    data: Annotated[
        Path | None, syntax.option("DATA", "The judged data (default: the data of the run).")
    ] = None,
    group: Annotated[syntax.Flags, flags.MAPPED],
) -> None:
    """Write the scores of a run for another tool, or send them to its server.

    Examples:
        textassay export inspect runs/first --out scores.json
        textassay export promptfoo runs/first --out scores.cjs
        textassay export mlflow runs/first --to http://127.0.0.1:5000
        textassay export langfuse runs/first --trace trace_id --to https://cloud.langfuse.com
    """
    from textassay.exporting import Format, Server, export_scores, send_scores

    if (out is None) == (to is None):
        raise ConfigurationError("name a file with out=FILE, or a server with to=URL")
    examples = open_examples(run, data, group)
    if out is not None:
        count = export_scores(run, cast("Format", form), out, data=examples, trace=trace)
        say(f"wrote {with_noun(count, 'record')} to {out}")
        return
    assert to is not None
    sent_scores = run_async(send_scores(run, cast("Server", form), to, data=examples, trace=trace))
    say(f"sent {sent_scores} scores")
