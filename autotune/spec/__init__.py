"""The space file: from text to values, and every problem of it at once.

``loader.read_space`` reads a file or a shipped space, ``loader.load_space`` a text; ``check.check_space`` compares a
space with its trainer; ``configs`` makes configurations of it; ``catalogue.shipped_spaces`` lists what ships.
"""
