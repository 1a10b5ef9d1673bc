"""One file per family of commands; each command is a thin function over the client."""
