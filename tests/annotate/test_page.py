"""The page in a real browser: raters with the keyboard, a server that is killed, hostile texts."""

import itertools
import json
import random
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest

from tests.browser import browsing, complaints, forget_earlier_pages, wait_for
from tests.waiting import free_port
from textassay.agreement.raters import krippendorff_alpha
from textassay.runtime.messages import Example

SERVE = "from textassay.cli import main; main()"
HOSTILE = [
    "</script><script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">",
    "\u202eright to left\u202c and \u0000 NUL",
    "x" * 200_000,
]


class Server:
    """`textassay annotate` as a process that can be killed and started again at the same port."""

    def __init__(self, folder, examples, *, raters=1, flags=()):
        self.out = folder / "ratings.jsonl"
        data = folder / "data.jsonl"
        data.write_text("".join(example.model_dump_json() + "\n" for example in examples))
        self.command = [sys.executable, "-c", SERVE, "annotate", str(data), "-o", str(self.out)]
        self.command += ["--task", "summarization", "--aspects", "fluency,relevance"]
        self.command += ["--raters", str(raters), "--repeat", "0", *flags]
        self.process, self.links, self.port = None, [], free_port()

    def start(self):
        self.process = subprocess.Popen(
            [*self.command, "--port", str(self.port)], stderr=subprocess.PIPE, text=True
        )
        while len(self.links) < int(self.command[self.command.index("--raters") + 1]):
            line = self.process.stderr.readline()
            assert line, "the server ended"
            if "/rate/" in line:
                self.links.append(line.split()[-1])
        return self

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def ratings(self):
        journal = self.out.with_name("ratings.journal.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in journal]
        return [row for row in rows if row["event"] == "rating"]


@contextmanager
def running(folder, examples, **options):
    """Serve inside the block."""
    server = Server(folder, examples, **options).start()
    try:
        yield server
    finally:
        server.kill()


def opened(driver, link):
    """Open a rater's page and wait for its text."""
    forget_earlier_pages(driver)
    driver.get(link)
    wait_for(driver, "document.querySelector('.output') !== null")


def press(driver, keys):
    """Type keys, as a rater does."""
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(keys).perform()


def summaries(count):
    """Return texts whose number is readable in them."""
    return [
        Example(id=f"SECRET{n % 4}-{n}", output=f"Summary {n}.", source="A source.",
                system=f"SECRET{n % 4}", group=str(n // 4))
        for n in range(count)
    ]  # fmt: skip


def save(driver):
    """Press the button that has the focus; wait for the next text and for what is counted."""
    driver.execute_script(
        "window.before = document.querySelector('#texts').firstElementChild;"
        "window.counted = document.getElementById('count').textContent"
    )
    driver.switch_to.active_element.click()
    wait_for(
        driver,
        "document.querySelector('#texts').firstElementChild !== window.before"
        " && document.getElementById('count').textContent !== window.counted",
    )


def test_a_rater_with_the_keyboard_alone(tmp_path, browser):
    """Guidelines are read first; digits rate, X declines, Enter continues, G opens them again."""
    guide = tmp_path / "guide.md"
    guide.write_text(f"# Fluency\n\n{HOSTILE[1]}", "utf-8")
    is_open = "return document.getElementById('guidelines').open"
    with running(tmp_path, summaries(2), flags=("--guidelines", str(guide))) as server:
        opened(browser, server.links[0])
        shown = "return document.querySelector('#guidelines .content').textContent"
        assert browser.execute_script(shown) == guide.read_text("utf-8")
        assert browser.execute_script(is_open)
        press(browser, "4x")
        wait_for(browser, "document.activeElement.id === 'next'")
        save(browser)
        assert browser.find_element("id", "count").text.startswith("1 done")
        assert not browser.execute_script(is_open)
        opened(browser, server.links[0])
        assert not browser.execute_script(is_open)
        press(browser, "g")
        assert browser.execute_script(is_open)
        press(browser, "2")
        press(browser, "\ue007")  # Enter with an aspect still open
        assert browser.execute_script("return document.querySelectorAll('.missing').length") == 1
        press(browser, "5")
        browser.switch_to.active_element.click()
        wait_for(browser, "document.body.textContent.includes('Thank you')")
        wait_for(browser, "document.getElementById('saved').textContent === 'All saved'")
        assert complaints(browser) == []
        assert "owned" not in browser.title
    first, second = server.ratings()
    assert first["ratings"] == {"fluency": 4.0, "relevance": None}
    assert second["ratings"] == {"fluency": 2.0, "relevance": 5.0}


def test_hostile_texts_are_text(tmp_path, browser):
    """Nothing that a model wrote runs or hides in a rater's page."""
    items = [Example(id=f"h{n}", output=text, source=text) for n, text in enumerate(HOSTILE)]
    with running(tmp_path, items) as server:
        opened(browser, server.links[0])
        seen = set()
        for _ in HOSTILE:
            wait_for(browser, "document.querySelector('.output p') !== null")
            text = browser.execute_script("return document.querySelector('.output p').textContent")
            seen.add(text.replace("\ufffd", "\x00"))
            press(browser, "3")
            press(browser, "3")
            save(browser)
        assert seen == set(HOSTILE)
        assert "owned" not in browser.title


TEXTS = 24
ANSWER = """
const done = arguments[arguments.length - 1];
const before = document.querySelector('.output p');
if (!before) return done(document.querySelector('.notice').textContent);
const number = Number(before.textContent.match(/\\d+/)[0]);
const rating = (aspect) => Math.max(1, Math.min(5, 1 + (number * (aspect + 3)) % 5 + arguments[0]));
document.querySelectorAll('fieldset').forEach((set, aspect) => {
  const value = String(rating(aspect));
  [...set.querySelectorAll('input')].find((input) => input.value === value).click();
});
document.getElementById('next').click();
const watch = setInterval(() => {
  if (document.querySelector('.output p') === before) return;
  clearInterval(watch);
  done(null);
}, 2);
"""


def test_three_raters_and_a_server_that_is_killed(tmp_path):
    """Nothing acknowledged is lost or doubled; agreement is what the planted ratings give.

    The third rater is one point stricter. No page ever holds a system's name.
    """
    rng = random.Random(5)
    kills = sorted(rng.sample(range(6, 3 * TEXTS - 6), 3))
    items = summaries(TEXTS)
    server = Server(tmp_path, items, raters=3).start()
    try:
        with ExitStack() as stack:
            drivers = [stack.enter_context(browsing(tmp_path / f"profile{n}")) for n in range(3)]
            for driver, link in zip(drivers, server.links, strict=True):
                opened(driver, link)
            thanked: set[int] = set()
            for turn in itertools.count():
                if kills and turn == kills[0]:
                    kills.pop(0)
                    server.kill()
                    server.start()
                rater = turn % 3
                notice = drivers[rater].execute_async_script(ANSWER, -(rater == 2))
                assert "SECRET" not in drivers[rater].page_source
                # while the server is away, a page says that instead
                if "Thank you" in (notice or ""):
                    thanked.add(rater)
                if len(thanked) == 3:
                    break
            for driver in drivers:
                wait_for(driver, "document.getElementById('saved').textContent === 'All saved'")
    finally:
        server.kill()
    given = {(r["rater"], r["item"]): r["ratings"] for r in server.ratings()}
    assert len(given) == len(server.ratings()) == 3 * TEXTS
    planted = [
        [max(1, min(5, 1 + number * 3 % 5 - strict)) for strict in (0, 0, 1)]
        for number in range(TEXTS)
    ]
    by_item: dict[str, dict[str, float]] = {}
    for (rater, item), ratings in given.items():
        by_item.setdefault(item, {})[rater] = ratings["fluency"]
    found = krippendorff_alpha([[row[f"r{n}"] for n in (1, 2, 3)] for row in by_item.values()])
    assert found == pytest.approx(krippendorff_alpha(planted))
    strict = [row["r1"] - row["r3"] for row in by_item.values()]
    assert sum(strict) == sum(row[0] - row[2] for row in planted) > 0
