"""The socket on which several processes listen.

As uvicorn makes and uses one, the first process to wake takes all connections that wait, and each answer waits until the
caller has acknowledged the piece before: asyncio turns Nagle's algorithm off only where a socket says that it is TCP.
"""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass

WAITING = 2_048  # connections that no process has taken yet
FILES = 8_192  # and connections that a process may have open, where the system lets it ask for so many
AT_ONCE = 1  # connections that a process takes before the others may: the least busy take the most


def allow_files() -> None:
    """Let this process, and those it starts, have more files and connections open than the 1,024 that is often the rule."""
    if sys.platform == "win32":
        return
    import resource

    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def listen_at(host: str, port: int) -> socket.socket:
    """Listen at an address; raise OSError where that can't be done."""
    listening = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(WAITING)  # who comes before the processes are ready waits
    except OSError:
        listening.close()
        raise
    return listening


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What becomes a `SharedSocket` in the process that it is sent to."""

    listening: socket.socket

    def __reduce__(self) -> tuple[object, ...]:
        return receive, (self.listening,)


class SharedSocket(socket.socket):
    """Has room for all who wait, however few asyncio takes at a time: both are one number to it."""

    def listen(self, _: int = 0, /) -> None:
        super().listen(WAITING)


def receive(sent: socket.socket) -> SharedSocket:
    return SharedSocket(sent.family, sent.type, sent.proto, fileno=sent.detach())
