"""verl as a backend."""
