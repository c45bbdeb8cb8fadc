"""Chromium's accessibility tree of the open page: what it hands to a screen reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CONTROLS = {
    "button", "checkbox", "combobox", "DisclosureTriangle", "link", "listbox", "option", "radio",
    "searchbox", "slider", "spinbutton", "textbox",
}  # fmt: skip


@dataclass(frozen=True)
class Element:
    """One node that a screen reader meets."""

    id: str
    role: str
    name: str
    properties: dict[str, Any]
    children: tuple[str, ...]


def tree(driver: Any) -> list[Element]:
    """All nodes of the page; one that screen readers pass by has no role, and may have children."""
    nodes = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [
        Element(
            node["nodeId"],
            "" if node["ignored"] else str(node["role"]["value"]),
            str(node.get("name", {}).get("value", "")),
            {one["name"]: one["value"].get("value") for one in node.get("properties", ())},
            tuple(node.get("childIds", ())),
        )
        for node in nodes
    ]


def named(elements: list[Element], role: str) -> list[str]:
    """Names of all elements of a role."""
    return [one.name for one in elements if one.role == role]


def inside(elements: list[Element], root: Element) -> list[Element]:
    """What is below an element, itself included, in the order in which it is read."""
    by_id = {one.id: one for one in elements}
    found, waiting = [], [root.id]
    while waiting:
        one = by_id.get(waiting.pop())
        if one is not None:
            found.append(one)
            waiting += reversed(one.children)
    return found


def faults(elements: list[Element]) -> list[str]:
    """Controls without a name, tables without a name or headers, headings that skip a level."""
    found = [
        f"{one.role} without a name" for one in elements if one.role in CONTROLS and not one.name
    ]
    for table in (one for one in elements if one.role in ("table", "grid")):
        cells = {one.role for one in inside(elements, table)}
        if not table.name or not cells & {"columnheader", "rowheader"}:
            found.append(f"table {table.name!r} without a name or headers: {sorted(cells)}")
    level = 0
    page = next(one for one in elements if one.role == "RootWebArea")
    for one in inside(elements, page):
        if one.role == "heading":
            if one.properties["level"] > level + 1:
                found.append(f"heading {one.name!r} skips a level")
            level = one.properties["level"]
    return found
