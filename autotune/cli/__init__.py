"""The ``autotune`` command. Importing it is cheap: every command imports what it needs when it runs."""
