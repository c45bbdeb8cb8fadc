"""Three examples with all fields, and a task of the user's own: for tests of whole runs."""

ROWS = [
    {
        "id": str(number),
        "output": f'It rained {number} times. "Never again," she said. '
        "It was the wettest May ever.",
        "source": f"A: How was May?\nB: It rained {number} times in May.",
        "context": "Rain is wet.",
        "references": ["It rained in May.", "May was wet."],
    }
    for number in range(3)
]
STORY = (
    'intro = "A story."\noutput_name = "Story"\n'
    '[[aspects]]\nname = "suspense"\ndefinition = "whether one wants to know how it goes on."\n'
)
