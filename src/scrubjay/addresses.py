"""Where servers listen: whether others can reach it, and taking the port."""

from __future__ import annotations

import ipaddress
import socket

from scrubjay.errors import SettingsError


def is_loopback(host: str) -> bool:
    """Tell whether an address is this machine's alone; of names, only localhost is."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Take the port, 0 for any that is free; raise SettingsError where it can't be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise SettingsError(
            f"can't listen on {host} port {port} ({error}): choose another with --port"
        ) from error
