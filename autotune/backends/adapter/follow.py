"""Follows a file that another process writes."""

from __future__ import annotations

import os
from pathlib import Path

_MAX_READ = 4 << 20


class Follow:
    """Reads whole lines as they are appended.

    What an earlier attempt has written is passed over; a file that was replaced or cut is read from its start.

    Args:
        path: The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = b""
        try:
            status = path.stat()
            self._file, self._offset = (status.st_dev, status.st_ino), status.st_size
        except OSError:
            self._file, self._offset = (0, 0), 0

    def earlier(self) -> str:
        """The first line, where the file was there before; a table's header."""
        if self._offset == 0:
            return ""
        with self._path.open("rb") as file:
            return file.readline(1 << 16).decode("utf-8", "replace")

    def lines(self, *, ended: bool = False) -> list[str]:
        """The new lines; an incomplete last one is kept until it is complete or ``ended``."""
        try:
            with self._path.open("rb") as file:
                while self._more(file.fileno()):
                    continue
        except OSError:
            pass
        *complete, self._partial = self._partial.split(b"\n")
        if ended:
            complete, self._partial = [*complete, self._partial], b""
        return [line.decode("utf-8", "replace") for line in complete if line.strip()]

    def _more(self, fd: int) -> bool:
        status = os.fstat(fd)
        identity = (status.st_dev, status.st_ino)
        if identity != self._file or status.st_size < self._offset:
            self._file, self._offset, self._partial = identity, 0, b""
        chunk = os.pread(fd, _MAX_READ, self._offset)
        self._offset += len(chunk)
        self._partial += chunk
        return bool(chunk)
