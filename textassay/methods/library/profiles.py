"""Loads profiles: built-in ones by name, the user's from a folder.

    MYPROFILE/
      profile.toml
      rating.jinja      and any other file that it names

`profile.toml`, every key but `format` optional:

    format = 1
    ask = "plain"            # or "chat"
    ratings = "choices"      # from the probabilities of the labels after the prompt; or "written"

    [prompts]                # which file takes the place of which built-in prompt
    llm_score = "rating.jinja"

    [options.g-eval]         # defaults of a method's options; the user's own win
    steps = "none"

Two more files are optional:

    METHOD.toml      defaults of one method's options; it counts in the digest of that method alone
    refused.toml     methods and options without effect on the model's requests, with reasons

In options, a value that ends in `.toml`, `.json` or `.jinja` names a file beside `profile.toml`,
if there is one; `{task}` is replaced by the task's name. Unknown keys are errors that name file
and key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from textassay.agents.prompt_template import NO_PROFILE, Profile, Task
from textassay.methods.library.toml import FORMAT, check_format, problem, read_toml, validate_as
from textassay.methods.method import Models, PromptOptions, judges_of, model_or_none
from textassay.prompts import PROFILES, profile_folder
from textassay.runtime.calls.deciding import TypedJudge
from textassay.runtime.errors import ConfigurationError, UnknownName

FILE = "profile.toml"
AUTO, NONE, TYPED = "auto", "none", "typed"
JUDGE = "scorer"
"""Role of the judge in all methods in which a model writes."""
REPLACEABLE = (
    "llm_score", "llm_score_cot", "g_eval", "hd_eval", "coascore", "coascore_ratings",
    "fusion_eval", "decomp_eval", "gptscore", "gptscore_question",
)  # fmt: skip
"""Prompts for judges, which a profile may replace."""
AnyOptions = TypeVar("AnyOptions", bound=PromptOptions)


class _ProfileFile(Profile, defer_build=True):
    """The content of a profile's file."""

    format: int = Field(default=FORMAT, strict=True, ge=1)


def load(profile: str, method: str | None = None) -> Profile:
    """Return a profile.

    Args:
        profile: Name of a built-in profile, or path of a folder with a `profile.toml`.
        method: The method, whose own file of options is part of the digest.

    Raises:
        UnknownName: There is no such profile.
        ConfigurationError: The file cannot be read or has an error; names file and key.
    """
    folder = _find(profile)
    path = folder / FILE
    table = read_toml(path)
    content = dict(table.content)
    check_format(path, content)
    # only the loader sets these fields, so that a file cannot pose as another profile
    for key in ("name", "digest", "refused"):
        if key in content:
            raise problem(path, f"{key}: unknown key")
    parsed = validate_as(path, content, _ProfileFile)
    if unknown := parsed.prompts.keys() - set(REPLACEABLE):
        replaceable = ", ".join(REPLACEABLE)
        raise problem(path, f"prompts: unknown prompt {min(unknown)!r}; there are: {replaceable}")
    prompts = {name: str(_beside(folder, path, file)) for name, file in parsed.prompts.items()}
    name = profile if profile in PROFILES else folder.name
    options, digest = parsed.options, table.digest
    if method and (folder / f"{method}.toml").is_file():
        of_method = read_toml(folder / f"{method}.toml")
        options = options | {method: options.get(method, {}) | of_method.content}
        # for this method alone, so that cached answers of other methods remain valid
        digest = hashlib.sha256(f"{digest}{of_method.digest}".encode()).hexdigest()[:6]
    fields = parsed.model_dump(exclude={"format"}) | {
        "name": name,
        "digest": digest,
        "prompts": prompts,
        "options": options,
        "refused": _read_refusals(folder / "refused.toml"),
    }
    return Profile(**fields)


def _read_refusals(path: Path) -> dict[str, dict[str, str]]:
    """Read the refusals of a profile; empty without the file."""
    refused = read_toml(path).content if path.is_file() else {}
    return validate_as(path, {"refused": refused}, Profile).refused


def resolve(option: str, models: Models, role: str, method: str | None = None) -> Profile:
    """Return the profile for the model of a role.

    Args:
        option: `auto` for the packaged profile of the model's name, if there is one; `none`;
            `typed`; a name or a folder.
        models: The models; a missing one has no profile.
        role: The role.
        method: The method.

    Raises:
        UnknownName: There is no such profile.
        ConfigurationError: Its file cannot be used.
    """
    if option in (NONE, TYPED):
        return NO_PROFILE
    if option != AUTO:
        return load(option, method)
    model = model_or_none(models, role)
    return load("embedded", method) if model and model.name == "embedded" else NO_PROFILE


def with_typed_judge(models: Models, role: str, retries: int) -> Models:
    """Return the models with judges that get typed questions, as a decision model does.

    Unusable answers are requested again `retries` times.
    """
    by_role = dict(models) if isinstance(models, Mapping) else {"": models}
    judges = judges_of(models, role).items()
    chats = {name or role: model for name, model in judges if not model.capabilities.only_decides}
    return by_role | {name: TypedJudge(model, retries) for name, model in chats.items()}


def rating_prompt(profile: Profile, name: str, *, ends_in_rating: bool) -> str:
    """Return the prompt for a rating by a judge with this profile.

    Args:
        profile: The profile.
        name: Prompt of the method, which the profile may replace.
        ends_in_rating: Whether that prompt ends right before the rating.

    Raises:
        ConfigurationError: The profile reads the probabilities of labels right after the prompt,
            but this prompt asks for words first.
    """
    # a label's probability where a reason begins would be a meaningless score
    if profile.ratings == "choices" and name not in profile.prompts and not ends_in_rating:
        instead = "name a file in its place in [prompts], or " if name in REPLACEABLE else ""
        raise ConfigurationError(
            f"the profile {profile.name!r} reads the probabilities of labels right after the"
            f" prompt, and {name!r} asks for words first; {instead}use another profile"
            " (options={'profile': 'none'})"
        )
    return profile.prompt(name)


def apply_profile(
    options: AnyOptions, method: str, models: Models, task: Task, role: str = JUDGE
) -> tuple[AnyOptions, Profile]:
    """Return the profile of a method's judge, and the method's options with the profile's defaults.

    Raises:
        UnknownName: There is no such profile.
        ConfigurationError: The profile's file cannot be used, or its options are not the
            method's.
    """
    profile = resolve(options.profile, models, role, method)
    if profile.methods and method not in profile.methods:
        if profile.others:
            raise ConfigurationError(
                f"the profile {profile.name!r} refuses {method}: {profile.others}; it is for"
                f" {', '.join(profile.methods)} (or use another: options={{'profile': 'none'}})"
            )
        raise ConfigurationError(
            f"profile {profile.name!r} has no prompts for {method}; it is for"
            f" {', '.join(profile.methods)}"
        )
    if profile.printed and options.prompt_layout != "paper":
        raise ConfigurationError(
            f"profile={profile.name} has the paper's order; leave out prompt_layout="
        )
    if profile.printed and getattr(options, "form", "number") != "number":
        raise ConfigurationError(f"profile={profile.name} asks for numbers; leave out form=")
    _refuse(profile, method, options)
    ask = {"ask": profile.ask} if profile.digest and "ask" in type(options).model_fields else {}
    preset = ask | profile.options.get(method, {})
    if not preset:
        return options, profile
    user_values = options.model_dump(include=options.model_fields_set)
    folder = _find(options.profile if options.profile != AUTO else profile.name)
    placed = {key: _place_option(folder, value, task) for key, value in preset.items()}
    overrides = {key: value for key, value in placed.items() if value is not None}
    try:
        # the user's own options are not changed, as their paths are relative to the working folder
        return type(options).read(overrides | user_values), profile
    except ConfigurationError as error:
        raise ConfigurationError(
            f"profile {profile.name!r}, [options.{method}]: {error}"
        ) from error


def _refuse(profile: Profile, method: str, options: PromptOptions) -> None:
    """Refuse methods and options in the profile's `refused.toml`.

    With a prompt of the user's own no option is refused, since the prompt may use any of them.
    """
    refused = {} if options.prompt else profile.refused.get(method, {})
    if "method" in refused:
        raise ConfigurationError(
            f"the profile {profile.name!r} refuses {method}: {refused['method']}, or another"
            " profile (options={'profile': 'none'})"
        )
    usual = {"ask": profile.ask} | profile.options.get(method, {})
    for key, reason in {**profile.refused.get("*", {}), **refused}.items():
        name, _, setting = key.partition("=")
        # only options that the user gave are refused, not defaults
        if name not in options.model_fields_set:
            continue
        value = getattr(options, name)
        expected = usual.get(name, type(options).model_fields[name].default)
        nothing = expected is None and value == 0  # the temperature if it is not set
        if (value == setting) if setting else (value != expected and not nothing):
            raise ConfigurationError(
                f"the profile {profile.name!r} refuses {name}={value}: {reason}; leave {name} out, "
                "or use another profile (options={'profile': 'none'})"
            )


def require_generation(what: str, instead: str, option: str, models: Models, role: str) -> None:
    """Refuse a model as writer if its profile says that it can only judge.

    Args:
        what: The text that it would write.
        instead: Advice for the user.
        option: The option `profile`.
        models: The models.
        role: Role of the model that would write; models other than the judge have no profile.

    Raises:
        ConfigurationError: The judge's profile says that it cannot write.
    """
    profile = resolve(option, models, JUDGE)
    writer, model = model_or_none(models, role), model_or_none(models, JUDGE)
    if profile.writes or not writer or not model:
        return
    if writer.name == model.name:
        example = f"model={{{role!r}: NAME}}"
        other = "" if role == JUDGE else f", or have another model write them ({example})"
        raise ConfigurationError(
            f"model {model.name!r} is asked by the profile {profile.name!r}, which says that it"
            f" cannot write {what}: {instead}{other}"
        )


def with_absolute_path(option: Any) -> Any:
    """Return the option `profile` with an absolute path if it names a folder."""
    named = isinstance(option, str) and option not in (AUTO, NONE, TYPED, *PROFILES)
    return str(Path(option).absolute()) if named and Path(option).is_dir() else option


def _find(profile: str) -> Path:
    if profile in PROFILES:
        return profile_folder(profile)
    folder = Path(profile)
    if folder.is_dir():
        return folder.absolute()
    raise UnknownName(
        "profile",
        profile,
        [AUTO, NONE, TYPED, *PROFILES, f"or the path of a folder that contains a {FILE}"],
    )


def _beside(folder: Path, path: Path, file: str) -> Path:
    absolute = folder / file
    if absolute.suffix != ".jinja" or not absolute.is_file():
        raise problem(path, f"prompts: there is no prompt file (.jinja) {file!r} next to it")
    return absolute


def _place_option(folder: Path, value: Any, task: Task) -> Any:
    """Return an option's value; a file's name becomes a path, `None` if there is no such file."""
    if not isinstance(value, str) or not value.endswith((".toml", ".json", ".jinja")):
        return value
    path = folder / value.replace("{task}", task.name)
    return str(path) if path.is_file() or "{task}" not in value else None
