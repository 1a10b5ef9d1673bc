"""Does advice help: recorded trials, what the rules advise for them, and what became of it."""
