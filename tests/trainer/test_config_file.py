"""Reading configuration files and command-line values."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.config import compose
from trainer.configfile import dump_config, parse_value, read_config


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("-2.5e+3", -2500.0),
        ("3", 3),
        ("0.1", 0.1),
        ("true", True),
        ("null", None),
        ("a:b", "a:b"),
    ],
)
def test_values_are_what_people_mean(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_a_configuration_written_is_read_back_equal(tmp_path: Path) -> None:
    composed = compose(overrides={"trainer.optim.lr": 1e-7})
    (tmp_path / "config.yaml").write_text(dump_config(composed))
    assert read_config(tmp_path / "config.yaml") == composed
