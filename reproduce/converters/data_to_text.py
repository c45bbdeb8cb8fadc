"""SFRES, SFHOT (Wen et al. 2015) and BAGEL (Mairesse et al. 2010): texts for meanings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from reproduce.converters.origin import (
    DataSet,
    Json,
    OriginFile,
    distinct,
    read_json,
    read_pickle,
)
from textassay.runtime.errors import DataError

QUALITY = {"overall": "quality"}
"""The aspect that people rated, by its name in UniEval's files."""


def rows(name: str, files: Sequence[Path]) -> Iterator[Json]:
    """Iterate over the rows of BARTScore's pickle, with UniEval's scores if these are given.

    Raises:
        DataError: UniEval's file is of another data set.
    """
    content = read_pickle(files[0])
    predicted = read_json(files[1]) if len(files) > 1 else [{}] * len(content)
    if len(predicted) != len(content):
        raise DataError(f"{files[1]} has {len(predicted)} rows and {files[0]} {len(content)}")
    groups: dict[str, str] = {}
    for number, (one, scored) in enumerate(zip(content.values(), predicted, strict=True)):
        if scored and scored["system_output"] != one["sys_summ"]:
            raise DataError(f"{files[1]} has another text than {files[0]} in row {number}")
        scores = scored.get("predict_scores", {})
        yield {
            "id": f"{name}-{number:04}",
            # rows of one meaning representation are one source, for all systems
            "group": groups.setdefault(one["src"], f"{name}-mr-{len(groups):03}"),
            "source": one["src"],
            "references": distinct(one["ref_summs"]),
            "output": one["sys_summ"],
            "human": {QUALITY.get(aspect, aspect): v for aspect, v in one["scores"].items()},
            "metrics": {f"unieval/{aspect}": value for aspect, value in scores.items()},
        }


def _data_set(name: str, what: str, pickle: str, result: str | None) -> DataSet:
    files = [
        OriginFile(
            "data.pkl",
            f"https://github.com/neulab/BARTScore at 248f511, D2T/{name.upper()}/",
            "Apache-2.0",
            pickle,
        )
    ]
    if result is not None:
        files.append(
            OriginFile(
                f"{name}_result.json",
                "https://github.com/maszhongming/UniEval at d33e7b6,"
                " reproduce/unieval_predict/data2text/",
                "MIT",
                result,
                optional=True,
                adds="UniEval's scores",
            )
        )
    return DataSet(name, what, tuple(files), partial(rows, name))


SFRES = _data_set(
    "sfres",
    "texts about restaurants in San Francisco, 1,181 rows",
    "7712d435ff79bb0b42191b8b868c1fe7ae26ae6399829a9b74fd6cb6d76690da",
    "cdd778033b8173e3ea4240f6a1f7e89534f868ea595943dd86b5e4d8016350c3",
)
SFHOT = _data_set(
    "sfhot",
    "texts about hotels in San Francisco, 875 rows",
    "00492d3f73341198663eca78cf07cef83a0b4834a6ba15a33a1ea79257f62e61",
    "ac3269e7443d8a62cdec310680f49d44cf21e1d33217162283d94359952b6346",
)
BAGEL = _data_set(
    "bagel",
    "texts about restaurants in Cambridge, 404 rows",
    "67f2bc57e47501ba3afb00fabb9a4790db2b0828b982799d76c0efe3c6e89ee1",
    None,
)
