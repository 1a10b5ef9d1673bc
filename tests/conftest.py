"""What holds for every test."""

from __future__ import annotations

import signal

from hypothesis import settings

# The same examples in every run: what passed here passes there.
settings.register_profile("seeded", derandomize=True, deadline=None)  # a deadline measures the machine
settings.load_profile("seeded")

# A shell starts a background job with SIGINT ignored, and children inherit that; the tests interrupt theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
