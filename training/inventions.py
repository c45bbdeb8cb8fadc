"""Makes conversations about articles, and records with texts that tell them, from our phrases."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

OPENERS = (
    "did you know that {}",
    "i read that {}",
    "have you heard that {}",
    "i think {}",
    "it is funny that {}",
    "someone told me that {}",
    "well, {}",
    "yes, and {}",
    "that reminds me, {}",
    "true, but {}",
    "i just learned that {}",
    "apparently {}",
    "oh, {}",
    "right, {}",
    "i find it interesting that {}",
    "what surprised me is that {}",
    "actually, {}",
    "{}",
)
CLOSERS = (
    "what do you think about that?",
    "isn't that amazing?",
    "did you know that?",
    "have you ever seen it?",
    "i would love to know more about it.",
    "how about you?",
    "that is really cool!",
    "i had no idea.",
    "can you believe it?",
    "it makes sense to me.",
    "that is crazy, right?",
    "i wonder why.",
    "do you like that sort of thing?",
    "pretty interesting, huh?",
    "i should read more about it.",
    "",
    "",
    "",
)
GREETINGS = (
    "hi, how are you today?",
    "hello! do you know much about {}?",
    "hey there, are you interested in {}?",
    "good morning. what do you think of {}?",
    "hi! have you read anything about {} lately?",
    "i was just reading about {}.",
    "so, what do you know about {}?",
    "do you follow news about {}?",
)
REACTIONS = (
    "oh wow, i did not know that.",
    "that is so interesting.",
    "really? tell me more about it.",
    "yes, i have heard about that too.",
    "no, i had not heard about that.",
    "i agree with you.",
    "that makes a lot of sense.",
    "haha, that is funny.",
    "i am not so sure about that.",
    "that must have been hard.",
)
DULL = (
    "i don't know.",
    "okay.",
    "ok, cool.",
    "that's nice.",
    "yes.",
    "no.",
    "i see.",
    "thanks.",
    "i agree.",
    "i am not sure.",
    "that is cool.",
    "oh, i see.",
    "that's good to know.",
    "i like it too.",
    "what do you mean?",
    "sure.",
    "yeah, i think so.",
    "maybe.",
    "i have no idea.",
    "me too.",
    "that's great.",
    "interesting.",
    "wow.",
    "yes, that is true.",
    "i don't know what to say about that.",
    "i guess so.",
    "sounds good.",
    "i think that is good.",
    "it is what it is.",
    "i like that.",
)


def remark(sentence: str, rng: random.Random) -> str:
    """Return what someone might say who has read a sentence."""
    said = sentence.strip().rstrip(".")
    opener, closer = rng.choice(OPENERS), rng.choice(CLOSERS)
    head = opener.format(said if opener == "{}" else said[0].lower() + said[1:])
    return f"{head}{'?' if opener.startswith(('did you', 'have you')) else '.'} {closer}".strip()


def chat_about(sentences: Sequence[str], topic: str, turns: int, rng: random.Random) -> list[str]:
    """Return a conversation about an article.

    Greetings and reactions between remarks on its sentences in order.
    """
    said = [rng.choice(GREETINGS).format(topic)]
    for sentence in sentences:
        if len(said) >= turns:
            break
        if rng.random() < 0.5:
            said.append(rng.choice(REACTIONS) if rng.random() < 0.7 else rng.choice(DULL))
        said.append(remark(sentence, rng))
    return said[:turns]


NAMES = [
    "the golden lamp",
    "river house",
    "blue heron",
    "casa verde",
    "the old mill",
    "maple court",
    "the copper kettle",
    "north star",
    "bella notte",
    "the red door",
    "harbor view",
    "green leaf",
    "stone bridge",
    "the quiet corner",
    "sunrise inn",
    "lotus garden",
    "the tin whistle",
    "oak hall",
    "silver fern",
    "the lantern",
    "corner bakery",
    "white swan",
    "king's arms",
    "la paloma",
    "the fig tree",
    "mill lane",
    "ocean pearl",
    "the attic",
]
VALUES = {
    "food": [
        "italian",
        "chinese",
        "indian",
        "thai",
        "french",
        "spanish",
        "mexican",
        "vegetarian",
        "seafood",
        "turkish",
        "greek",
        "japanese",
    ],
    "area": [
        "city centre",
        "riverside",
        "old town",
        "north",
        "south",
        "harbour",
        "university quarter",
        "market square",
    ],
    "price range": ["cheap", "moderate", "expensive", "very cheap"],
    "rating": ["3 out of 5", "4 out of 5", "5 out of 5", "low", "average", "high"],
    "near": [
        "the station",
        "the cathedral",
        "the opera",
        "the park",
        "the museum",
        "the bus stop",
        "the bridge",
        "the town hall",
    ],
    "phone": ["5550142", "5550198", "5550117", "5550163", "5550121", "5550176"],
    "pets allowed": ["yes", "no"],
    "good for": ["families", "groups", "lunch", "dinner", "business meetings", "breakfast"],
    "opening hours": ["8 am to 6 pm", "noon to midnight", "9 am to 9 pm", "all day"],
}
_TELLS = {
    "food": ("serves {} food", "offers {} dishes", "has {} cuisine"),
    "area": (
        "is in the {} area",
        "is located in the {} part of town",
        "can be found in the {} area",
    ),
    "price range": ("is {}", "has {} prices", "is in the {} price range"),
    "rating": ("is rated {}", "has a {} rating", "has a customer rating of {}"),
    "near": ("is near {}", "is close to {}", "lies next to {}"),
    "phone": ("has the phone number {}", "can be called at {}"),
    "good for": ("is good for {}", "is a good choice for {}"),
    "opening hours": ("is open {}", "is open from {}"),
}
_KINDS = ("restaurant", "hotel", "cafe", "pub", "place", "guest house")


@dataclass(frozen=True, slots=True)
class Record:
    """Something to be told in words.

    Attributes:
        name: What it is called.
        kind: What it is.
        slots: Its properties in order.
    """

    name: str
    kind: str
    slots: tuple[tuple[str, str], ...]

    def written(self, rng: random.Random) -> str:
        """Return the record as data sets write records, in one of several ways."""
        pairs = [("name", self.name), ("type", self.kind), *self.slots]
        pattern, between = rng.choice(
            (("{0}={1}", ","), ("{0}='{1}'", ";"), ("{0} = {1}", " | "), ("{0}: {1}", ", "))
        )
        whole = between.join(pattern.format(key, value) for key, value in pairs)
        return f"inform({whole.replace(' ', '')})" if between == "," else whole

    def told(self, slots: Sequence[tuple[str, str]], rng: random.Random) -> list[str]:
        """Return sentences that tell some slots."""
        parts = [_phrase(key, value, rng) for key, value in slots]
        if not parts:
            return [f"{self.name} is a {self.kind}."]
        first = (
            f"{self.name} is a {self.kind} that {parts[0]}"
            if rng.random() < 0.6
            else f"{self.name} {parts[0]}"
        )
        sentences, current = [], first
        for part in parts[1:]:
            if rng.random() < 0.55:
                current += rng.choice((" and ", ", and it ", ", it ")) + part
            else:
                sentences.append(current + ".")
                current = f"it {part}"
        return [*sentences, current + "."]


def _phrase(key: str, value: str, rng: random.Random) -> str:
    if key == "pets allowed":
        return "allows pets" if value == "yes" else "does not allow pets"
    return rng.choice(_TELLS[key]).format(value)


def record(rng: random.Random) -> Record:
    """Return a record with two to five slots."""
    keys = rng.sample(list(VALUES), rng.randint(2, 5))
    slots = tuple((key, rng.choice(VALUES[key])) for key in keys)
    return Record(rng.choice(NAMES), rng.choice(_KINDS), slots)


def another_value(key: str, value: str, rng: random.Random) -> str:
    """Return a value that a slot could have instead."""
    return rng.choice([other for other in VALUES[key] if other != value])
