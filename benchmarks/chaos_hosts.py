"""Several hosts on one machine, each of which can be cut off: by network namespaces, or by proxies where those aren't permitted."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = "127.0.0.1"
PREFIX_LENGTH = 24
CHUNK = 1 << 16
TICK = 0.05  # seconds between looks whether a proxy is cut


class Hosts(Protocol):
    """Hosts that reach what is common to all at an address, and one another at none."""

    kind: str
    common: str  # the address that the database and the model listen on

    def command(self, host: int, command: Sequence[str]) -> list[str]:
        """Give what runs a command on a host."""
        ...

    def address(self, host: int) -> str:
        """Give the address that a host's own servers listen on."""
        ...

    def reach(self, host: int, port: int) -> tuple[str, int]:
        """Give the address and port at which a host finds a port of the common address."""
        ...

    def call(self, host: int, port: int) -> tuple[str, int]:
        """Give the address and port at which a port of a host is found from without."""
        ...

    def cut(self, host: int) -> None:
        """Let nothing to or from a host through, and tell nobody."""
        ...

    def mend(self, host: int) -> None:
        """Let all through again."""
        ...

    def close(self) -> None: ...


def open_hosts(count: int, *, kind: str) -> Hosts:
    """Make hosts; "auto" takes namespaces where they may be made."""
    if kind == "processes":
        return ProxiedHosts()
    try:
        return NamespaceHosts(count)
    except (OSError, subprocess.CalledProcessError):
        if kind == "namespaces":
            raise
        return ProxiedHosts()


class NamespaceHosts:
    """Hosts that are network namespaces on one bridge; a host is cut off by taking its link down."""

    def __init__(self, count: int) -> None:
        self.kind = "network namespaces"
        self._name = f"sj{os.getpid()}"
        self._net = f"10.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 250}"
        self.common = f"{self._net}.1"
        self._made = ExitStack()
        try:
            self._make(count)
        except BaseException:
            self._made.close()
            raise

    def _make(self, count: int) -> None:
        bridge = f"{self._name}b"
        self._add("link", bridge, "type", "bridge")
        run_ip("addr", "add", f"{self.common}/{PREFIX_LENGTH}", "dev", bridge)
        run_ip("link", "set", bridge, "up")
        for host in range(count):
            space, outer, inner = self._space(host), self._link(host), f"{self._name}i{host}"
            self._add("netns", space)
            self._add("link", outer, "type", "veth", "peer", "name", inner)
            run_ip("link", "set", inner, "netns", space)
            run_ip("link", "set", outer, "master", bridge)
            run_ip("link", "set", outer, "up")
            within = ("-n", space)
            run_ip(*within, "addr", "add", f"{self.address(host)}/{PREFIX_LENGTH}", "dev", inner)
            run_ip(*within, "link", "set", inner, "up")
            run_ip(*within, "link", "set", "lo", "up")

    def _add(self, kind: str, name: str, *more: str) -> None:
        run_ip(kind, "add", name, *more)
        self._made.callback(subprocess.run, ["ip", kind, "del", name], check=False, capture_output=True)

    def _space(self, host: int) -> str:
        return f"{self._name}n{host}"

    def _link(self, host: int) -> str:
        return f"{self._name}o{host}"

    def command(self, host: int, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._space(host), *command]

    def address(self, host: int) -> str:
        return f"{self._net}.{host + 10}"

    def reach(self, host: int, port: int) -> tuple[str, int]:  # noqa: ARG002 -- the same from all
        return self.common, port

    def call(self, host: int, port: int) -> tuple[str, int]:
        return self.address(host), port

    def cut(self, host: int) -> None:
        run_ip("link", "set", self._link(host), "down")

    def mend(self, host: int) -> None:
        run_ip("link", "set", self._link(host), "up")

    def close(self) -> None:
        self._made.close()


def run_ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class ProxiedHosts:
    """Hosts that are processes, each with proxies to what it may reach, and to itself; a host is cut off by stopping them."""

    def __init__(self) -> None:
        self.kind = "processes behind proxies"
        self.common = HERE
        self._proxies: dict[tuple[int, int], Proxy] = {}

    def command(self, host: int, command: Sequence[str]) -> list[str]:  # noqa: ARG002 -- all are here
        return list(command)

    def address(self, host: int) -> str:  # noqa: ARG002 -- all are here
        return HERE

    def reach(self, host: int, port: int) -> tuple[str, int]:
        if (host, port) not in self._proxies:
            self._proxies[host, port] = Proxy(port)
        return HERE, self._proxies[host, port].port

    def call(self, host: int, port: int) -> tuple[str, int]:
        return self.reach(host, port)

    def cut(self, host: int) -> None:
        self._set(host, is_cut=True)

    def mend(self, host: int) -> None:
        self._set(host, is_cut=False)

    def _set(self, host: int, *, is_cut: bool) -> None:
        for (of, _), proxy in self._proxies.items():
            if of == host:
                (proxy.cut.set if is_cut else proxy.cut.clear)()

    def close(self) -> None:
        for proxy in self._proxies.values():
            proxy.close()


@dataclass(slots=True, eq=False)
class Pair:
    """A connection through a proxy: what came from one end goes to the other."""

    ends: tuple[socket.socket, socket.socket]
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def pass_on(self, cut: threading.Event, closing: threading.Event) -> None:
        """Pass on until an end closes; while cut, nothing, so that both ends wait for each other."""
        one, other = self.ends
        try:
            self.selector.register(one, selectors.EVENT_READ, other)
            self.selector.register(other, selectors.EVENT_READ, one)
            while not closing.is_set():
                if cut.is_set():
                    closing.wait(TICK)
                elif not self._pass_once():
                    return
        finally:
            self.selector.close()
            for end in self.ends:
                end.close()

    def _pass_once(self) -> bool:
        for key, _ in self.selector.select(TICK):
            end = key.fileobj
            assert isinstance(end, socket.socket)
            data = end.recv(CHUNK)
            if not data:
                return False
            key.data.sendall(data)
        return True


class Proxy:
    """A port of loopback from which connections go on to another, while it isn't cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._closing = threading.Event()
        self.cut = threading.Event()
        self._listening = socket.create_server((HERE, 0))
        self._listening.settimeout(TICK)
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="chaos-proxy", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            with suppress(TimeoutError, ConnectionError):
                taken, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, taken: socket.socket) -> None:
        taken.settimeout(None)
        try:
            onward = socket.create_connection((HERE, self._target))
        except OSError:
            taken.close()
            return
        with suppress(OSError):  # either end may break at any time: that is what this is about
            Pair((taken, onward)).pass_on(self.cut, self._closing)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._listening.close()
