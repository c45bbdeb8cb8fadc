"""The commands and their flags; each hands over to a module of its own.

That module is imported when the command runs: methods and tools take a second to load, and help
needs none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from textassay.cli import arguments
from textassay.cli.exits import exits, run_async
from textassay.cli.gc import raise_gc_threshold
from textassay.version import __version__

app = typer.Typer(
    name="textassay",
    help="Judge generated text with teams of small agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cache_app = typer.Typer(help="Look after a folder of cached answers.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")
tools_app = typer.Typer(help="Assistant evaluators by themselves.", no_args_is_help=True)
app.add_typer(tools_app, name="tools")

Concurrency = Annotated[
    int | None, typer.Option(help="Most calls in flight to one model (default 64).")
]
Rpm = Annotated[float | None, typer.Option(help="Most requests a minute.")]
Tpm = Annotated[
    float | None, typer.Option(help="Most tokens a minute, prompt and answer together.")
]
MaxCost = Annotated[
    float | None, typer.Option(help="US dollars after which the run stops, resumable.")
]
Price = Annotated[
    str | None, typer.Option(metavar="IN,OUT", help="US dollars per million tokens in and out.")
]
ApiBase = Annotated[str | None, typer.Option(help="Base address of the server, ending in /v1.")]
ApiKeyEnv = Annotated[
    str | None, typer.Option(help="Name of the environment variable that holds the key.")
]
Cache = Annotated[
    Path | None, typer.Option(help="Folder of cached answers (default: in the run folder).")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep no answers on disk.")]
ProgressStyle = Annotated[
    Literal["auto", "plain", "none"] | None, typer.Option(help="How progress is shown.")
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"textassay {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Judge generated text with teams of small agents."""


@app.command()
def score(
    data: Annotated[
        str | None, typer.Argument(help="JSONL (.gz), CSV or Parquet file of examples.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Method, such as g-eval.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="[ROLE=]MODEL", help="Model; may repeat by role.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to make.")] = None,
    aspects: Annotated[
        str | None, typer.Option(metavar="A,B", help="Aspects to judge (default: all of the task).")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="summarization, dialogue, data-to-text, translation or a TOML file."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of flags; the command line wins.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A further setting.")
    ] = None,
    api_base: ApiBase = None,
    api_key_env: ApiKeyEnv = None,
    n: Annotated[int | None, typer.Option(help="Samples per judgement.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the sampling.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many examples.")] = None,
    tools: Annotated[str | None, typer.Option(metavar="A,B", help="Assistant evaluators.")] = None,
    concurrency: Concurrency = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    max_cost: MaxCost = None,
    price: Price = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count calls, tokens and cost; ask nothing.")
    ] = False,
    progress: ProgressStyle = None,
) -> None:
    """Judge every example of DATA and write the scores to a run folder."""
    with exits():
        from textassay.cli.score import carry_out, order_from

        given = {
            "data": data, "method": method, "model": arguments.models(model or ()) or None, "out": out,
            "aspects": arguments.names(aspects), "task": task, "api_base": api_base, "api_key_env": api_key_env,
            "n": n, "temperature": temperature, "seed": seed, "limit": limit, "tools": arguments.names(tools),
            "concurrency": concurrency, "rpm": rpm, "tpm": tpm, "max_cost": max_cost,
            "price": arguments.price(price), "cache": cache, "no_cache": no_cache or None,
            "dry_run": dry_run or None, "progress": progress,
        }  # fmt: skip
        configured = arguments.config_file(config, [*given, "set", "fields"])
        chosen = {**configured.pop("set", {}), **arguments.settings(set_ or ())}
        order = order_from(arguments.merged(given, configured), chosen)
        raise typer.Exit(run_async(carry_out(order)))


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    concurrency: Concurrency = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    max_cost: MaxCost = None,
    price: Price = None,
    api_base: ApiBase = None,
    api_key_env: ApiKeyEnv = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    progress: ProgressStyle = None,
) -> None:
    """Go on with a run: ask only where there is no score yet, or an error."""
    with exits():
        from textassay.cli.score import carry_out, order_to_resume

        given = {
            "concurrency": concurrency, "rpm": rpm, "tpm": tpm, "max_cost": max_cost,
            "price": arguments.price(price), "api_base": api_base, "api_key_env": api_key_env, "cache": cache,
            "no_cache": no_cache or None, "progress": progress,
        }  # fmt: skip
        raise typer.Exit(run_async(carry_out(order_to_resume(run, given))))


@app.command("fit")
def fit_command(
    data: Annotated[str | None, typer.Argument(help="Examples with human ratings.")] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    out: Annotated[Path | None, typer.Option(help="Evaluator folder to make.")] = None,
    method: Annotated[
        str | None, typer.Option(help="hd-eval: grow criteria and let a model rate them.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="[ROLE=]MODEL", help="Model; may repeat by role.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="NAME,GLOB*", help="Learn from recorded metrics; no model is asked."),
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="Learn from files of scores or runs; may repeat."),
    ] = None,
    aggregator: Annotated[
        list[str] | None, typer.Option(help="Aggregator (default auto); may repeat.")
    ] = None,
    aspects: Annotated[
        str | None, typer.Option(metavar="A,B", help="Human aspects (default: all rated).")
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option(metavar="ASPECT=LOW,HIGH", help="Scale that people rated on; may repeat."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Keep what together: group (default) or row.")
    ] = None,
    train_fraction: Annotated[
        float | None, typer.Option(help="Share of the rows to learn from (default 0.5).")
    ] = None,
    report: Annotated[
        Literal["basic", "full"] | None, typer.Option(help="full adds curves and ablations.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Layers of criteria (default 3).")] = None,
    children: Annotated[
        int | None, typer.Option(help="Most parts of a criterion (default 4).")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(help="Criteria taken apart from layer 2 on (default 4).")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Task with the aspects' definitions.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A further setting.")
    ] = None,
    api_base: ApiBase = None,
    api_key_env: ApiKeyEnv = None,
    n: Annotated[int | None, typer.Option(help="Samples per judgement.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of split and learning.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many examples.")] = None,
    concurrency: Concurrency = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    max_cost: MaxCost = None,
    price: Price = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count calls, tokens and cost; ask nothing.")
    ] = False,
    progress: ProgressStyle = None,
) -> None:
    """Learn from people's ratings how to judge, and write an evaluator folder."""
    with exits():
        from textassay.cli import fit

        flags = {
            "data": data, "more": more, "out": out, "method": method, "model": arguments.models(model or ()) or None,
            "features": arguments.names(features), "scores": scores, "aggregator": aggregator,
            "aspects": arguments.names(aspects), "scale": scale, "split": split, "train_fraction": train_fraction,
            "report": report, "layers": layers, "children": children, "keep": keep, "task": task,
            "api_base": api_base, "api_key_env": api_key_env, "n": n, "temperature": temperature, "seed": seed,
            "limit": limit, "concurrency": concurrency, "rpm": rpm, "tpm": tpm, "max_cost": max_cost,
            "price": arguments.price(price), "cache": cache, "no_cache": no_cache or None,
            "dry_run": dry_run or None, "progress": progress,
        }  # fmt: skip
        raise typer.Exit(fit.carry_out(flags, arguments.settings(set_ or ())))


@app.command("meta")
def meta_command(
    scores: Annotated[Path, typer.Argument(help="Run folder, or JSONL with id, aspect, value.")],
    data: Annotated[Path, typer.Argument(help="Examples with human ratings.")],
    level: Annotated[
        list[str] | None, typer.Option(help="dataset, group or system; may repeat.")
    ] = None,
    aspect_map: Annotated[
        list[str] | None, typer.Option(metavar="SCORE=HUMAN", help="What is held against what.")
    ] = None,
    bootstrap: Annotated[
        int, typer.Option(help="Resamples of the groups for 95 % intervals; 0 for none.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure how scores agree with people's ratings."""
    with exits():
        from textassay.cli import meta

        meta.show(
            scores,
            data,
            levels=level or ["dataset"],
            mapping=aspect_map or (),
            bootstrap=bootstrap,
            seed=seed,
            as_json=as_json,
        )


@app.command()
def tree(
    out: Annotated[Path, typer.Option(help="File to write, .toml or .json.")],
    model: Annotated[
        list[str], typer.Option(metavar="[ROLE=]MODEL", help="Model; may repeat by role.")
    ],
    method: Annotated[
        str, typer.Option(help="hd-eval: criteria; coascore: relevant aspects.")
    ] = "hd-eval",
    task: Annotated[str | None, typer.Option(help="Built-in task or a TOML file.")] = None,
    aspects: Annotated[
        str | None, typer.Option(metavar="A,B", help="Aspects to take apart (default: all).")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="depth, children, ...")
    ] = None,
    api_base: ApiBase = None,
    api_key_env: ApiKeyEnv = None,
    max_cost: MaxCost = None,
    price: Price = None,
    cache: Cache = None,
) -> None:
    """Let a model take a task's aspects apart, and write the tree as a file to edit."""
    with exits():
        from textassay.cli import tree as trees
        from textassay.evaluation.spec import split_settings
        from textassay.runtime.settings import Settings

        runtime, options = split_settings(arguments.settings(set_ or ()))
        settings = Settings(
            api_base=api_base, api_key_env=api_key_env, max_cost=max_cost, price=arguments.price(price), cache=cache,
            **runtime,
        )  # fmt: skip
        names = arguments.names(aspects)
        order = trees.TreeOrder(
            method, out, arguments.models(model), task, names, options, settings
        )
        run_async(trees.carry_out(order))


@app.command()
def plan(
    out: Annotated[Path, typer.Option(help="File to write, .toml or .json.")],
    model: Annotated[
        list[str], typer.Option(metavar="[ROLE=]MODEL", help="Model; may repeat by role.")
    ],
    task: Annotated[str | None, typer.Option(help="Built-in task or a TOML file.")] = None,
    aspects: Annotated[
        str | None, typer.Option(metavar="A,B", help="Aspects to plan for (default: all).")
    ] = None,
    tools: Annotated[str | None, typer.Option(metavar="A,B", help="Assistant evaluators.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A further setting.")
    ] = None,
    api_base: ApiBase = None,
    api_key_env: ApiKeyEnv = None,
    max_cost: MaxCost = None,
    price: Price = None,
    cache: Cache = None,
) -> None:
    """Let a model write the plan of fusion-eval, and save it as a file to edit."""
    with exits():
        from textassay.cli import plan as plans
        from textassay.evaluation.spec import split_settings
        from textassay.runtime.settings import Settings

        runtime, options = split_settings(arguments.settings(set_ or ()))
        settings = Settings(
            api_base=api_base, api_key_env=api_key_env, max_cost=max_cost, price=arguments.price(price), cache=cache,
            **runtime,
        )  # fmt: skip
        wanted, served = arguments.names(aspects), arguments.names(tools) or ()
        order = plans.PlanOrder(
            out, arguments.models(model), task, wanted, served, options, settings
        )
        run_async(plans.carry_out(order))


@app.command()
def graph(
    method: Annotated[
        str, typer.Argument(help="Method, such as g-eval, or the folder of a fitted evaluator.")
    ],
    task: Annotated[str | None, typer.Option(help="Task to build it for.")] = None,
) -> None:
    """Print a method's graph as a mermaid picture."""
    with exits():
        from textassay.cli import graph as graphs

        typer.echo(graphs.picture(method, task))


@app.command("demo")
def demo_command(
    out: Annotated[
        Path | None, typer.Option(help="Folder to make, or to go on in (default: a temporary one).")
    ] = None,
    progress: ProgressStyle = None,
) -> None:
    """Show the whole pipeline on bundled examples: offline, on the embedded model."""
    with exits():
        from textassay.cli.demo import command as demo

        raise typer.Exit(run_async(demo.carry_out(out, progress or "auto")))


@app.command()
def doctor(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model to examine.")],
    api_base: ApiBase = None,
    api_key_env: ApiKeyEnv = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the model.")
    ] = None,
) -> None:
    """Find out what a model can do: log-probs, echo, n, seed, JSON schema; each probed, not assumed."""
    with exits():
        from textassay.cli import doctor as examination
        from textassay.evaluation.spec import SETTABLE, split_settings
        from textassay.runtime.errors import UnknownName
        from textassay.runtime.settings import LocalSettings, Settings

        runtime, unknown = split_settings(arguments.settings(set_ or ()))
        if unknown:
            raise UnknownName(
                "setting", next(iter(unknown)), [*SETTABLE, *LocalSettings.model_fields]
            )
        run_async(
            examination.show(model, Settings(api_base=api_base, api_key_env=api_key_env, **runtime))
        )


@tools_app.command("list")
def tools_list() -> None:
    """List the assistant evaluators."""
    with exits():
        from textassay.cli import tools as assistants

        assistants.show_list()


@tools_app.command("score")
def tools_score(
    data: Annotated[str, typer.Argument(help="JSONL (.gz), CSV or Parquet file of examples.")],
    out: Annotated[Path, typer.Option(help="Run folder to make.")],
    tools: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Assistant evaluators, such as rouge,nli:MODEL."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with [tools.NAME] tables.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model that lm_prob asks.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many examples.")] = None,
    api_base: ApiBase = None,
    api_key_env: ApiKeyEnv = None,
    progress: ProgressStyle = None,
) -> None:
    """Score every example of DATA with assistant evaluators and write the scores to a run folder."""
    with exits():
        from textassay.cli.score import carry_out, order_from

        given = {
            "data": data, "tools": arguments.names(tools), "out": out, "limit": limit,
            "model": arguments.models([model]) if model else None, "api_base": api_base,
            "api_key_env": api_key_env, "progress": progress,
        }  # fmt: skip
        configured = arguments.config_file(config, [*given, "fields"])
        raise typer.Exit(
            run_async(
                carry_out(
                    order_from({**arguments.merged(given, configured), "method": "tools"}, {})
                )
            )
        )


@cache_app.command("info")
def cache_info(folder: Annotated[Path, typer.Argument(help="Cache folder.")]) -> None:
    """Tell what a cache folder holds."""
    with exits():
        from textassay.cli import cache as caches

        caches.show_info(folder)


@cache_app.command("verify")
def cache_verify(folder: Annotated[Path, typer.Argument(help="Cache folder.")]) -> None:
    """Check every file and answer of a cache folder."""
    with exits():
        from textassay.cli import cache as caches

        raise typer.Exit(caches.show_verification(folder))


@cache_app.command("clear")
def cache_clear(folder: Annotated[Path, typer.Argument(help="Cache folder.")]) -> None:
    """Delete all answers of a cache folder."""
    with exits():
        from textassay.cli import cache as caches

        caches.clear(folder)


def main() -> None:
    """Run the command line."""
    raise_gc_threshold()
    app()
