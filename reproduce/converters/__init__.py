"""Converters: from the files that data sets are published in to textassay's format."""

from reproduce.converters.data_to_text import BAGEL, SFHOT, SFRES
from reproduce.converters.fed import FED_DIALOG, FED_TURN
from reproduce.converters.mqm import MQM
from reproduce.converters.newsroom import NEWSROOM
from reproduce.converters.openmeva import OPENMEVA
from reproduce.converters.origin import DataSet, OriginFile, converted, digest_of
from reproduce.converters.qags import QAGS_CNNDM, QAGS_XSUM
from reproduce.converters.realsumm import REALSUMM
from reproduce.converters.summeval import SUMMEVAL
from reproduce.converters.topical_chat import TOPICAL_CHAT

DATA_SETS: dict[str, DataSet] = {
    one.name: one
    for one in (
        SUMMEVAL,
        TOPICAL_CHAT,
        SFRES,
        SFHOT,
        BAGEL,
        FED_TURN,
        FED_DIALOG,
        QAGS_CNNDM,
        QAGS_XSUM,
        OPENMEVA,
        REALSUMM,
        NEWSROOM,
        MQM,
    )
}
"""The data sets of the papers' tables, by name."""

__all__ = ["DATA_SETS", "DataSet", "OriginFile", "converted", "digest_of"]
