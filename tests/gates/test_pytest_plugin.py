"""The plugin in sessions of pytest of its own, with a scripted judge."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import pytest

import textassay.gates  # noqa: F401 - so that no session has to import it again
from examples import thinking_server
from tests.cli.harness import served
from tests.loopback import in_thread
from textassay.runtime.calls.adaptation import KNOWN

pytest_plugins = ["pytester"]

INSTALLED = any(point.name == "textassay" for point in entry_points(group="pytest11"))
PLUGIN = ("-p", "textassay.pytest_plugin")

CONFTEST = """
import random
import pytest
import textassay

class Judge(textassay.ScriptedModel):
    asked = 0

def answer(request):
    Judge.asked += 1
    if "broken" in request.text:
        return "I will not say."
    return "Rating: " + request.text.split("quality ")[1][0]

JUDGE = Judge(answer, name="scripted/judge")

def texts(*values):
    return [{"id": f"t{i}", "output": f"Text {i} of quality {v}"} for i, v in enumerate(values)]
"""
TESTS = """
import pytest
from textassay import Settings
from conftest import JUDGE, Judge, texts

pytestmark = pytest.mark.textassay(
    method="llm-score", aspects=["coherence"], model=JUDGE, settings=Settings(price=(1.0, 1.0))
)

def test_good(assay):
    run = assay.evaluate_sync(texts(*"4454544544"))
    assay.check(run, "coherence", at_least=3)
    assay.check_not_worse(run, baseline=run, by=0.1)

def test_bad(assay):
    run = assay.evaluate_sync(texts(*"2232322322"))
    assay.check(run, "coherence", at_least=3.5)

def test_open(assay):
    run = assay.evaluate_sync(texts(*"2535253525"))
    assay.check(run, "coherence", at_least=3.5)

def test_broken_judge(assay):
    rows = [{"id": f"t{i}", "output": f"broken {i}"} for i in range(4)]
    assay.check(assay.evaluate_sync(rows), "coherence", at_least=3.5)

def test_without():
    pass
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """A small suite; neither CI nor a job's summary is set."""
    for name in ("CI", "GITHUB_STEP_SUMMARY", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_suite=TESTS)
    return pytester


def run(suite, *arguments):
    """Run the suite in a session of its own, in this process, with this plugin alone."""
    return suite.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *arguments)


def test_four_outcomes(suite, monkeypatch):
    """A failure names texts and scores; inconclusive and judge errors are outcomes of their own."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(suite.path / "summary.md"))
    for workers in ((), ("-p", "xdist", "-n", "2")):
        result = run(suite, "-v", "--junitxml=junit.xml", *workers)
        result.stdout.fnmatch_lines(
            [
                "*CheckFailed: coherence: 2.300, 95% interval *at least 3.5 fails*",
                "*t0: 2*",
                "*Text 0 of quality 2*",
            ]
        )
        result.stdout.fnmatch_lines(["*JudgeError: coherence: 4 of 4 texts have no score*"])
        result.stdout.fnmatch_lines(["*= textassay =*", "*test_good: coherence: 4.300*holds"])
        assert all(
            f"1 {one}" in result.stdout.lines[-1] for one in ("failed", "inconclusive", "error")
        )
        assert result.ret == 1
        cases = ElementTree.parse(suite.path / "junit.xml").iter("testcase")
        found = {
            case.get("name"): {one.get("name"): one.get("value") for one in case.iter("property")}
            for case in cases
        }
        assert found["test_bad"]["textassay.coherence.verdict"] == "fails"
        assert float(found["test_good"]["textassay.coherence.n"]) == 10
    assert run(suite, "-k", "good or open", "--textassay=replay").ret == 4
    assert run(suite, "-k", "good or open", "--textassay-inconclusive=pass").ret == 0
    rows = [
        line for line in (suite.path / "summary.md").read_text().splitlines() if line[:1] == "|"
    ]
    assert rows[0] == "| test | aspect | value | required | verdict |"
    assert any("coherence, difference to baseline" in row for row in rows)
    assert any("| coherence | 2.300 \\[1.849, 3.131\\] | ≥ 3.500 | fails |" in row for row in rows)


@pytest.mark.parametrize(("chosen", "status"), [("open or good", 4), ("bug or open", 1)])
def test_inconclusive_has_a_status_of_its_own(suite, chosen, status):
    """A pipeline can ask for more texts rather than for a repair; a real failure keeps its own."""
    suite.makepyfile(test_first="def test_a_bug():\n    assert 1 == 2\n")
    assert run(suite, "-k", chosen).ret == status


@pytest.mark.parametrize(
    ("expected", "chosen", "inconclusive", "outcome", "status"),
    [
        ("strict=False", "bad", "fail", "xfailed", 0),
        ("strict=False", "open", "fail", "xfailed", 0),
        ("strict=False", "broken", "fail", "xfailed", 0),
        ("strict=False", "open", "pass", "xpassed", 0),
        ("strict=True", "open", "pass", "failed", 1),
    ],
)
def test_an_expected_failure_is_reported_by_pytest(
    suite, expected, chosen, inconclusive, outcome, status
):
    """What an inconclusive check or a judge's error would be called is not shown in its place."""
    tests = TESTS.replace("pytestmark = ", f"pytestmark = [pytest.mark.xfail({expected}), ")
    suite.makepyfile(test_expected=tests.replace("(1.0, 1.0))\n)", "(1.0, 1.0))\n)]"))
    result = run(
        suite, "test_expected.py", "-k", chosen, f"--textassay-inconclusive={inconclusive}"
    )
    assert result.ret == status
    assert f"1 {outcome}" in result.stdout.lines[-1]


def test_replay_asks_no_model(suite, monkeypatch):
    """In CI recorded answers are replayed, without key or price; the rest is an error."""
    assert run(suite, "-k", "good").ret == 0
    monkeypatch.setenv("CI", "true")
    suite.makepyfile(
        test_suite=TESTS
        + """
def test_no_model_was_asked(assay):
    run = assay.evaluate_sync(texts(*"4454544544"))
    assert run.summary()["outcomes"]["scored"] == 10
    assert Judge.asked == 0
"""
    )
    assert run(suite, "-k", "good or nobody").ret == 0
    result = run(suite, "-k", "bad")
    result.stdout.fnmatch_lines(
        ["*JudgeError: 10 texts were never judged: 't0', 't1', 't2', ...;*--textassay=record*"]
    )
    assert run(suite, "-k", "good", "-o", "textassay_answers=elsewhere").ret == 1
    # left out, one changed text would pass the gate unjudged; the file is of another size, since
    # Python takes a module of equal size and second for the one it has compiled
    suite.makepyfile(test_suite=f"{TESTS.replace('4454544544', '4454544543')}# one was changed\n")
    result = run(suite, "-k", "good")
    result.stdout.fnmatch_lines(["*JudgeError: 1 text was never judged: 't9'; *"])
    assert result.ret == 1


def test_a_property_of_that_name_from_elsewhere_is_left_alone(suite):
    suite.makepyfile(test_other="def test_it(record_property): record_property('textassay', '1.2')")
    result = run(suite, "test_other.py")
    result.assert_outcomes(passed=1)
    assert result.ret == 0


OWN_SERVER = """
import pytest
from conftest import texts

pytestmark = pytest.mark.textassay(
    method="llm-score", aspects=["coherence"], model="direct/judge", {0}
)

def test_own_server(assay):
    run = assay.evaluate_sync(texts(*"445"))
    assert [one.outcome for one in run] == ["scored"] * 3
"""


def test_settings_are_arguments_of_the_marker(suite):
    with served() as server:
        given = f"api_base={server.url!r}, timeout=20"
        suite.makepyfile(test_suite=OWN_SERVER.format(given))
        result = run(suite)
        assert result.ret == 0, result.stdout.str()


THINKING = {
    "plain": "openai",
    "effort='low'": "openai",
    "effort='none'": "vllm",
    "extra={'top_k': 3}": "vllm",
    "settings=Settings(roles={'scorer': {'temperature': 0.5, 'seed': 1}})": "vllm",
    "thinking_tokens=300": "deepseek",
}


@pytest.mark.parametrize(("given", "family"), THINKING.items(), ids=THINKING)
def test_judges_that_think_are_replayed(suite, given, family):
    """With what their servers refuse, and with effort, further fields and sampling of a role."""
    with in_thread(lambda: thinking_server.serve(family, 50)) as server:
        address = f"api_base={server.url!r}"
        if "settings=" in given:
            address, given = "", given.replace("(roles", f"({address}, roles")
        arguments = f"{address}, {given}" if given != "plain" else address
        own = OWN_SERVER.replace("import pytest", "import pytest\nfrom textassay import Settings")
        suite.makepyfile(test_suite=own.format(arguments.removeprefix(", ")))
        assert run(suite, "--textassay=record").ret == 0
        asked = server.counters.requests
        for mode in ("replay", "record", "replay"):
            KNOWN.clear()  # as in another process
            result = run(suite, f"--textassay={mode}")
            assert result.ret == 0, result.stdout.str()
        assert server.counters.requests == asked
        KNOWN.clear()
        other = own.format(f"effort='high', {arguments.removeprefix(', ')}")
        if "effort" not in given:
            suite.makepyfile(test_suite=f"{other}\n# another size")
            result = run(suite, "--textassay=replay")
            result.stdout.fnmatch_lines(['*JudgeError: 3 texts were never*now with*effort="high"*'])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("aspectz=3", "unknown parameter of evaluate 'aspectz'"),
        ("timeout=20", "model 'direct/judge' needs api_base="),
        ("max_cost=1.0", "max_cost= is set once for all tests of a session: --textassay-max-cost"),
    ],
)
def test_an_error_of_configuration_is_three_lines(suite, given, words):
    suite.makepyfile(test_suite=OWN_SERVER.format(given))
    lines = run(suite).stdout.lines
    start = next(at for at, line in enumerate(lines) if "ERROR at call" in line)
    end = next(at for at, line in enumerate(lines) if "warnings summary" in line)
    shown = [line for line in lines[start + 1 : end] if not set(line) <= {" ", "^"}]
    assert len(shown) == 3, shown
    assert shown[0].startswith("test_suite.py:9: in test_own_server")
    assert words in shown[2]


def test_the_cap_is_kept(suite):
    result = run(suite, "-k", "good", "--textassay=live", "--textassay-max-cost=0.00001")
    result.stdout.fnmatch_lines(["*BudgetReached*"])
    result.assert_outcomes(errors=1)


def test_the_guide(suite):
    page = (Path(__file__).parents[2] / "docs" / "ci.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    texts = "".join(f'{{"output": "Text {n} of quality {4 + n % 2}"}}\n' for n in range(20))
    suite.mkdir("tests").joinpath("data").mkdir()
    (suite.path / "tests" / "data" / "summaries.jsonl").write_text(texts)
    judge = block.replace('"openai/gpt-4.1-mini"', "JUDGE, options={'n': 2}")
    assert judge != block
    judge_of_two_ratings = (
        "import textassay\n"
        "ANSWERS = {True: 'Rating: 4', False: 'Rating: 5'}\n"
        "JUDGE = textassay.ScriptedModel(lambda r: ANSWERS['quality 4' in r.text])\n"
    )
    recorded = "assay.evaluate_sync('tests/data/summaries.jsonl', out='tests/baselines/main')"
    main = f"def test_main(assay):\n    {recorded}\n\n\ndef test_no_worse"
    suite.makepyfile(test_suite=judge_of_two_ratings + judge.replace("def test_no_worse", main))
    run(suite, "--textassay=live").assert_outcomes(passed=3)


@pytest.mark.skipif(not INSTALLED, reason="needs the entry point of an installed textassay")
def test_nothing_heavy_is_imported_without_the_fixture(suite, monkeypatch):
    """A session that finds the plugin by its entry point imports nothing but the plugin itself."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    suite.makeconftest(
        """
def pytest_sessionfinish(session):
    import sys
    heavy = {"numpy", "pydantic", "aiohttp", "litellm", "textassay.gates", "textassay.runtime"}
    assert not heavy & set(sys.modules)
"""
    )
    suite.makepyfile(test_suite="def test_one(): pass")
    result = suite.runpytest_subprocess("-p", "no:cacheprovider", "--textassay=live")
    assert result.ret == 0
