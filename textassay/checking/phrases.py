"""Formats figures for sentences."""

from __future__ import annotations

from textassay.table import Estimate


def subtract(figure: Estimate, start: float = 0, *, unit: float = 1) -> Estimate:
    """Return `start` minus a figure, in units of another."""
    ends = figure.value, figure.high, figure.low
    return Estimate(*(None if end is None else start - end / unit for end in ends))


def interval(figure: Estimate) -> str:
    """Return a value with its ends, such as `0.64 [0.60, 0.68]`."""
    value = "-" if figure.value is None else f"{figure.value:.2f}"
    return f"{value} [{ends(figure, 2)}]" if figure.ends else value


def ends(figure: Estimate, digits: int, times: float = 1) -> str:
    """Return the ends of an interval."""
    return ", ".join(f"{times * end:.{digits}f}" for end in figure.ends) or "no interval"


def percent(share: float, digits: int = 0) -> str:
    """Return a share in percent."""
    return f"{100 * share:.{digits}f} %"


def percent_interval(figure: Estimate, digits: int = 0) -> str:
    """Return a share with its ends in percent, such as `17 % [12, 23]`."""
    if figure.value is None:
        return "- %"
    value = percent(figure.value, digits)
    return f"{value} [{ends(figure, digits, 100)}]" if figure.ends else value


def upper(text: str) -> str:
    """Return text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
