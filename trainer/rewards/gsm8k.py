"""The reward for word problems whose answer is a number."""

from __future__ import annotations

import re
from decimal import Decimal

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?|[-+]?\.\d+")
_MARK = "####"


def gsm8k(prompt: str, response: str, ground_truth: str) -> float:
    """1 when the final number is the expected one, else 0.

    The final number is the first one after the last "####", or, in a response without that mark, the last one.
    Thousands separators and trailing zeros do not matter.

    Raises:
        ValueError: The ground truth holds no number.
    """
    del prompt
    wanted = final_number(ground_truth)
    if wanted is None:
        raise ValueError(f"the ground truth {ground_truth!r} holds no number")
    return float(final_number(response) == wanted)


def final_number(text: str) -> Decimal | None:
    """The final number of a text; None when there is none."""
    _, mark, answer = text.rpartition(_MARK)
    found = _NUMBER.findall(answer)
    if not found:
        return None
    return Decimal((found[0] if mark else found[-1]).replace(",", ""))
