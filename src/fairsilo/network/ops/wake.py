"""A silo's SuperNode and its worker wake each other, instead of asking each other again and again.

A byte says "look now" and nothing else. Where none comes (Flower's inside has changed, so that the
node does not send any) both look by themselves, as often as without it.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket

VARIABLE = "FAIRSILO_WAKE"
"""The variable with the number of this process's end."""


class Wake:
    """One end."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.end = end
        self.heard = False
        """Whether the other end ever sent something."""

    def tell(self) -> None:
        """Wake the other process, or let its next wait end at once."""
        # Where the buffer is full it has bytes enough to wake up by.
        with contextlib.suppress(OSError):
            self.end.send(b".")

    def wait(self, seconds: float) -> bool:
        """Wait for the other process, at most so long; whether it sent something."""
        if not select.select([self.end], [], [], seconds)[0]:
            return False
        with contextlib.suppress(OSError):
            while self.end.recv(1):
                self.heard = True
        return True


def ends() -> tuple[socket.socket, socket.socket]:
    """Both ends, to be handed to two processes; a byte waits where one is not there yet."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def own_end() -> Wake | None:
    """The end that this process was started with, if there is one."""
    number = os.environ.get(VARIABLE)
    return Wake(socket.socket(fileno=int(number))) if number else None
