"""The request of an alignment, checked against the data, and the sessions that rate its criteria.

Knows ratings, trees and how a session is opened; nothing of what is learned from the ratings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from pathlib import Path

from textassay.evaluation.request import RunRequest
from textassay.evaluation.session import Session, open_session
from textassay.fitting.alignment import Measure, check_learnable
from textassay.fitting.alignment_order import AlignmentOrder, rated, selection, task_for
from textassay.fitting.fit_from_scores import Learning, sides
from textassay.fitting.given_tree import given_tree
from textassay.fitting.learn import Fitter
from textassay.fitting.scales import scales_of
from textassay.fitting.table import human_aspects, read_table
from textassay.learning.splits import Mask
from textassay.methods.fitted.node_ratings import NodeRatings
from textassay.methods.hd_eval import SCALE, HDEvalOptions
from textassay.methods.library import trees
from textassay.methods.library.profiles import with_absolute_path as absolute_profile
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, parameter
from textassay.runtime.messages import Example
from textassay.runtime.model import Json, Model

OF_THE_TREE = ("tree", "depth", "output")
"""Options of HD-Eval that alignment decides itself."""


class CheckedAlignment:
    """An alignment that can be performed on its data: people's ratings, rows, tree, judge."""

    def __init__(self, order: AlignmentOrder) -> None:
        """Check the order against the data.

        Raises:
            ConfigurationError: Something does not fit; nothing was asked.
            DataError: The ratings do not allow to learn from them.
        """
        self.order = order
        for name in OF_THE_TREE:
            if name in order.options.model_fields_set:
                raise ConfigurationError(
                    f"option {name} cannot be combined with fit, which decides it itself; a tree "
                    f"is named by {parameter('tree')}, its layers by {parameter('layers')}"
                )
        self.task = task_for(order.task, human_aspects(order.data.check(), order.learning.aspects))
        self.examples = rated(order.data, order.learning, order.limit)
        self.people = read_table(Examples(self.examples), selection(order.learning))
        self.fitter = Fitter(
            scales_of(self.people, order.learning.scales),
            order.learning.seed,
            order.learning.threads,
        )
        self.train = self._split(order.learning)
        self.tree = given_tree(order.tree, self.task)
        self.roots = (
            tuple(aspect.model_copy(update={"scale": SCALE}) for aspect in self.task.aspects)
            if self.tree is None
            else self.tree.roots
        )
        self._check_learnable()

    def _check_learnable(self, measure: Measure | None = None) -> None:
        check_learnable(
            self.people,
            self.train,
            self.roots,
            aggregators=self.order.learning.aggregators,
            fitter=self.fitter,
            measure=measure,
        )

    def _split(self, learning: Learning) -> Mask:
        """Return which rows are learned from.

        Rows of neither side are dropped and not rated.
        """
        train, test = sides(self.people, learning)
        used = train | test
        kept = {id_ for id_, is_used in zip(self.people.ids, used, strict=True) if is_used}
        self.examples = [example for example in self.examples if example.id in kept]
        # ratings are paid for per row, so rows of neither side must not reach the judge
        self.people = self.people.rows(used)
        return train[used]

    @property
    def judging(self) -> HDEvalOptions:
        """How the judge and the decomposer are asked."""
        prompt = self.order.options.prompt
        if prompt is not None and prompt.endswith(
            ".jinja"
        ):  # the evaluator may be applied from another folder
            prompt = str(Path(prompt).absolute())
        profile = absolute_profile(self.order.options.profile)
        update = {"children": self.order.growth.children, "prompt": prompt, "profile": profile}
        return self.order.options.model_copy(update=update)

    def session(
        self,
        method: NodeRatings,
        connected: Mapping[str, Model],
        folder: Path | None,
        examples: Sequence[Example] | None = None,
    ) -> AbstractAsyncContextManager[Session]:
        """Open or resume the run that rates a layer's nodes, on all examples or on those given.

        Without a folder, only count its requests.
        """
        return open_session(
            self.examples if examples is None else examples,
            RunRequest(
                method=method.name,
                models={role: model.name for role, model in connected.items()},
                # the models carry the alignment's own store already; a cache of the run would keep
                # answers twice
                settings=self.order.settings.model_copy(update={"cache": None, "no_cache": True}),
                out=folder,
                resume=folder is not None and (folder / "manifest.json").exists(),
            ),
            method=method,
            models=connected,
            dry=folder is None,
        )

    def _plan(self) -> Json:
        """Return what must not change between two calls, as JSON values.

        Another aggregator may: it can make other criteria matter, and then the file of the next
        layer's parts differs.
        """
        learning = asdict(self.order.learning)
        # these change the report or the speed, but never which ratings are asked for
        for name in ("threads", "depth", "aggregators", "repeats"):
            del learning[name]
        if learning["test_fraction"] is None:  # as earlier versions have it
            del learning["test_fraction"]
        tree = {} if self.tree is None else {"tree": trees.tree_digest(self.tree)}
        names = {role: m if isinstance(m, str) else m.name for role, m in self.order.models.items()}
        # through JSON, so that tuples and lists compare equal to what the file holds
        plan: Json = json.loads(
            json.dumps(
                {
                    "format": 1,
                    "data": self.order.data.check().digest,
                    "limit": self.order.limit,
                    "task": {"name": self.task.name, "digest": self.task.digest},
                    "roots": [root.name for root in self.roots],
                    "models": names,
                    "options": self.order.options.model_dump(mode="json"),
                    "growth": self.order.growth.as_dict(given=self.tree is not None),
                    "learning": learning,
                    **tree,
                }
            )
        )
        return plan
