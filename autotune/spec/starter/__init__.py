"""The first space file of a person who has none: from a few answers to a commented file that passes ``plan``."""

from autotune.spec.starter.text import first_space
from autotune.spec.starter.wishes import BUILT_IN_DATA, GOALS, Wishes, slug

__all__ = ["BUILT_IN_DATA", "GOALS", "Wishes", "first_space", "slug"]
