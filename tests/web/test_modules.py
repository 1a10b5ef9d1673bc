"""Pure functions of the live page, called in the browser."""

import random

import pytest

from tests.web.support import DOCUMENT


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_front_holds_exactly_what_no_other_beats_in_both(call, direction):
    dice = random.Random(5)
    sign = 1 if direction == "maximize" else -1
    for size in (1, 2, 30):
        # Few different values, so that ties come up.
        points = [{"x": dice.randint(0, 9) / 10, "y": dice.randint(0, 9) / 10} for _ in range(size)]
        front = call("plots/plane", "paretoFront", points, direction)
        beaten = [
            p
            for p in points
            if any(
                q["x"] <= p["x"] and sign * q["y"] >= sign * p["y"] and (q["x"], q["y"]) != (p["x"], p["y"])
                for q in points
            )
        ]
        expected = {(p["x"], p["y"]) for p in points if p not in beaten}
        assert {(p["x"], p["y"]) for p in front} == expected
        assert len(front) == len(expected), "equal points come once"


def test_limits_rungs_and_budgets_are_read_from_the_space(call):
    assert [(each["value"], each["kind"]) for each in call("space", "klLimits", DOCUMENT)] == [
        (0.3, "constraint"),
        (0.4, "ceiling"),
    ]
    assert call("space", "rungs", DOCUMENT, 40) == [8, 16, 32]
    assert call("space", "budget", DOCUMENT) == {"gpuHours": 4, "wallClock": 7200}
    assert call("space", "isLog", DOCUMENT, "trainer.optim.lr"), "a short name in the space"
    assert not call("space", "isLog", DOCUMENT, "algorithm.clip_ratio")


@pytest.mark.parametrize("document", [{}, {"prune": ["asha"]}, {"constraints": ["a > 1", 3, None]}, None])
def test_a_space_without_limits_or_rungs_has_none(call, document):
    assert call("space", "klLimits", document) == []
    assert call("space", "rungs", document, 40) == []


def test_the_rungs_are_those_of_the_pruner(call):
    from autotune.search.pruners.asha import Asha

    for least, factor, steps in [(8, 2, 40), (5, 3, 500), (1, 1.5, 60), (20, 4, 20), (3, 2.5, 1000)]:
        document = {"prune": ["not_finite", {"asha": {"min_steps": least, "reduction_factor": factor}}]}
        expected = Asha(min_steps=least, reduction_factor=factor).rungs(steps)
        assert call("space", "rungs", document, steps) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"), (1234567.0, "1.23e+6"), (0.00001234, "1.23e-5"), (3, "3"), (0, "0"), (None, "–"),
        ("x", "–"), (1.0, "1"), (-0.5, "-0.5"),
    ],
)  # fmt: skip
def test_numbers_are_short(call, value, text):
    assert call("format", "number", value) == text


@pytest.mark.parametrize(
    ("written", "seconds"), [("24h", 86400), ("1h30m", 5400), ("2d", 172800), (90, 90), ("", None), (None, None)]
)
def test_durations_are_read_as_the_space_file_writes_them(call, written, seconds):
    assert call("format", "parseDuration", written) == seconds


def test_text_for_plotly_is_escaped_and_broken_into_lines(call):
    text = call("format", "wrapped", "<b>bold</b> & " + "x" * 100, 40)
    assert text.startswith("&lt;b&gt;bold&lt;/b&gt; &amp;")
    assert all(len(line) < 60 for line in text.split("<br>"))
