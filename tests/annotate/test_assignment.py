"""Who sees what: least rated first, balanced by system, leases that come back, repeats."""

from collections import Counter

import pytest

from tests.annotate.studies import examples, study
from textassay.annotate.ratings import CollectedRatings, RaterAnswer
from textassay.annotate.server import REPEAT_DISTANCE, Allocation


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self):
        return self.now


async def rate(ratings, assignment, rater, value=3.0):
    """Answer the rater's next item; return the visit, or `None` if there is none."""
    upcoming = assignment.upcoming(rater)
    if not upcoming:
        return None
    visit, position = upcoming[0]
    answer = RaterAnswer({"tone": value, "polite": 1.0}, 1, 2.0, position)
    assert await ratings.record(visit, answer)
    return visit


@pytest.mark.asyncio
async def test_each_item_is_rated_as_often_as_wanted_and_by_different_people(tmp_path):
    """Two of three raters rate each item."""
    async with CollectedRatings(study(per_item=2), tmp_path / "j.jsonl") as ratings:
        assignment = Allocation(ratings)
        raters = [(await ratings.add_rater())[0] for _ in range(3)]
        going = True
        while going:
            going = any([await rate(ratings, assignment, rater) for rater in raters])
        counts = Counter(visit.key for visit in ratings.answers)
        assert set(counts.values()) == {2}
        assert len(counts) == 6


@pytest.mark.asyncio
async def test_no_rater_gets_all_of_one_system(tmp_path):
    """After any number of items a rater's counts of the systems differ by at most one."""
    shown = study(examples(groups=6, systems=3))
    async with CollectedRatings(shown, tmp_path / "j.jsonl") as ratings:
        assignment = Allocation(ratings)
        rater, _ = await ratings.add_rater()
        seen = Counter({f"SECRET{n}": 0 for n in range(3)})
        while visit := await rate(ratings, assignment, rater):
            seen[shown.by_key[visit.key].system] += 1
            assert max(seen.values()) - min(seen.values()) <= 1
        assert sum(seen.values()) == 18


@pytest.mark.asyncio
async def test_a_lease_that_runs_out_returns_the_item(tmp_path):
    """An item that was shown and not rated waits for its rater, then goes to the next."""
    clock = Clock()
    async with CollectedRatings(study(examples(1, 1)), tmp_path / "j.jsonl") as ratings:
        assignment = Allocation(ratings, lease_seconds=100, clock=clock)
        gone, other = [(await ratings.add_rater())[0] for _ in range(2)]
        assert len(assignment.upcoming(gone)) == 1
        assert assignment.upcoming(other) == []
        clock.now = 101
        assert len(assignment.upcoming(other)) == 1


@pytest.mark.asyncio
async def test_asking_again_gives_the_same_item(tmp_path):
    """A reload changes nothing, nor does a restart of the server."""
    path = tmp_path / "j.jsonl"
    async with CollectedRatings(study(), path) as ratings:
        rater, _ = await ratings.add_rater()
        assignment = Allocation(ratings)
        first = assignment.upcoming(rater, 3)
        assert assignment.upcoming(rater, 3) == first
    async with CollectedRatings(study(), path) as again:
        assert Allocation(again).upcoming(again.raters["r1"], 3) == first


@pytest.mark.asyncio
async def test_some_items_come_twice_and_far_apart(tmp_path):
    """About the wanted share is repeated, each at most once, with other items between."""
    shown = study(examples(groups=60, systems=2), repeat_share=0.1)
    async with CollectedRatings(shown, tmp_path / "j.jsonl") as ratings:
        assignment = Allocation(ratings)
        rater, _ = await ratings.add_rater()
        while await rate(ratings, assignment, rater):
            pass
        places = {visit: place for place, visit in enumerate(rater.visits)}
        repeated = [visit for visit in rater.visits if visit.repeat]
        assert 4 <= len(repeated) <= 24
        assert len({visit.key for visit in repeated}) == len(repeated)
        firsts = {visit.key: place for visit, place in places.items() if not visit.repeat}
        assert min(places[v] - firsts[v.key] for v in repeated) >= REPEAT_DISTANCE
        assert len(firsts) == 120
