"""What holds for every test."""

from __future__ import annotations

import signal

# A shell starts a background job with SIGINT ignored, and children inherit that; the tests interrupt theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
