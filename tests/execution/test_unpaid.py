import os

import pytest

from autotune.execution.unpaid import unpaid_s


@pytest.fixture
def touch(tmp_path):
    def at(name, moment):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (moment, moment))

    return at


def test_an_attempt_is_charged_until_its_last_sign_of_life(tmp_path, touch):
    touch("config.yaml", 100.0)
    touch("metrics.jsonl", 130.0)
    touch("attempt_1.log", 127.0)
    assert unpaid_s(tmp_path, heard_at=120.0) == 10.0
    touch("result.json", 135.0)
    assert unpaid_s(tmp_path, heard_at=120.0) == 15.0


def test_what_an_earlier_attempt_said_does_not_count(tmp_path, touch):
    touch("config.yaml", 100.0)
    touch("attempt_1.log", 60.0)
    touch("attempt_2.log", 104.0)
    assert unpaid_s(tmp_path, heard_at=50.0) == 4.0


def test_an_attempt_that_never_started_costs_nothing(tmp_path, touch):
    assert unpaid_s(tmp_path / "nowhere", heard_at=0.0) == 0.0
    touch("config.yaml", 100.0)
    touch("metrics.jsonl", 90.0)
    assert unpaid_s(tmp_path, heard_at=95.0) == 0.0
