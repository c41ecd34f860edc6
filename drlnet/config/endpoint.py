"""Where something that speaks HTTP listens: HOST:PORT."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from drlnet.errors import ConfigError


@dataclass(frozen=True)
class Endpoint:
    """A host, by number or name, and a port; 0 picks a free one."""

    host: str
    port: int

    @staticmethod
    def parse(words: str) -> Endpoint:
        """Parses 127.0.0.1:9464, localhost:9464 or [::1]:9464. ConfigError for anything else."""
        host, colon, port = words.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if bracketed:
            host = host[1:-1]
        if not colon or not host or (":" in host) != bracketed or not port.isdecimal():
            raise ConfigError(
                f"{words!r} is not a HOST:PORT address", "write for example 127.0.0.1:9464"
            )
        if int(port) > 65535:
            raise ConfigError(f"{words!r}: invalid port {port}", "choose one up to 65535")
        return Endpoint(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name of which we do not know where it leads
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
