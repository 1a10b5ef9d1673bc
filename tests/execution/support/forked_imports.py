"""What a fork server imports ahead in tests."""

IMPORTED = True
