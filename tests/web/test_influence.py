import random

import pytest

from tests.web.support import fill_job
from tests.web.test_page import ROWS, job_address


def test_ranks_share_ties(call):
    assert call("influence", "ranks", [30, 10, 20, 10, 30, 30]) == [5, 1.5, 3, 1.5, 5, 5]


def test_a_monotone_curve_is_a_perfect_association_however_bent(call):
    x = [1e-5 * 3**step for step in range(10)]
    assert call("influence", "association", x, [value**0.5 for value in x])["strength"] == pytest.approx(1)
    found = call("influence", "association", x, [-(value**3) for value in x])
    assert found["strength"] == pytest.approx(-1)
    assert found["signed"]
    assert found["sure"]


def test_choices_are_compared_by_their_groups(call):
    found = call("influence", "association", ["a", "b"] * 10, [0.1, 0.9] * 10)
    assert found["strength"] == pytest.approx(1)
    assert not found["signed"]


def test_chance_is_rarely_taken_for_an_association(call):
    dice = random.Random(3)
    searches, sure = 200, 0
    for number in range(searches):
        y = [dice.random() for _ in range(24)]
        x = [dice.choice("abc") for _ in y] if number % 2 else [dice.random() for _ in y]
        sure += call("influence", "association", x, y)["sure"]
    assert sure <= 0.1 * searches


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1.0] * 12, list(range(12))),
        (list(range(12)), [0.5] * 12),
        ([1, 2, 3], [1, 2, 3]),
        ([f"choice {number}" for number in range(12)], list(range(12))),
    ],
)
def test_what_cannot_be_said_is_not_said(call, x, y):
    assert call("influence", "association", x, y) is None


def test_the_page_says_what_goes_with_reward_and_with_kl(service, open_page):
    job = fill_job(service, "demo-1", trials=40, steps=10)
    for trial in service.trials_of[job.id]:
        if trial.value is not None:
            trial.params["algorithm.clip_ratio"] = trial.value / 4
    page = open_page(job_address("demo-1"))
    page.wait(f"{ROWS} === 40")
    first = page.wait("document.querySelector('.influence tbody tr').innerText")
    assert "algorithm.clip_ratio" in first
    assert "1.00 more is higher" in first


def test_a_few_trials_are_too_few(service, open_page):
    fill_job(service, "demo-1", trials=4, steps=10)
    page = open_page(job_address("demo-1"))
    page.wait("document.querySelector('#parallel').innerText.includes('It takes 8 ended trials')")
