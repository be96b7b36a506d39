"""API keys: who is calling.

A key is written `name:key` or `name:key:products_per_second`. Only digests are kept, every comparison runs over
all of them in constant time, and neither logs nor errors ever show a key.

A browse key may stand in a web page, where everybody can read it: `name:key:products_per_second:origin origin…`. It
asks for recommendations and similar items and for nothing else, it always has a limit, and pages of other origins
cannot use it.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from service.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pydantic import SecretStr

    from service.settings import Settings


# What a browse key may call, by the names of service.http.calls.
BROWSED = frozenset(("recommend", "recommend_post", "similar"))
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](:[0-9]{1,5})?")


class Key(NamedTuple):
    """One caller.

    rate     how many products per second it may spend, 0 for any number
    origins  the web pages that a browse key may stand in; None for a key that does not belong in a browser
    """

    position: int
    name: str
    digest: bytes
    rate: float
    origins: frozenset[bytes] | None = None


class Keyring:
    """All keys of the service; `required` is false when none is configured."""

    def __init__(
        self, keys: Iterable[Key] = (), admin: bytes | None = None, *, cors_origins: Sequence[str] = ()
    ) -> None:
        self.keys = tuple(keys)
        # Pages of these origins may call what browse keys may.
        self.origins: frozenset[bytes] = frozenset().union(*(key.origins or () for key in self.keys))
        # And of these, with a browse key only.
        self._browse_only = frozenset() if "*" in cors_origins else self.origins - set(map(str.encode, cors_origins))
        self.required = bool(self.keys)
        self.admin_required = admin is not None
        self._admin = admin

    @classmethod
    def from_settings(cls, settings: Settings) -> Keyring:
        """Read keys from the environment and from files.

        A ValueError names the entry (never the key) that is wrong.
        """
        entries = _entries(settings.api_keys, settings.api_keys_file)
        keys = [_parse(entry, number, settings) for number, entry in enumerate(entries, 1)]
        browse = _entries(settings.browse_keys, settings.browse_keys_file)
        keys += [_parse_browse(entry, number, len(keys)) for number, entry in enumerate(browse, 1)]
        admin = settings.admin_key.get_secret_value() if settings.admin_key else None
        if settings.admin_key_file is not None:
            admin = _read(settings.admin_key_file).strip()
        return cls(keys, _digest(admin.encode()) if admin else None, cors_origins=settings.cors_origins)

    def identify(self, presented: bytes | None) -> Key | None:
        """Return the caller's key, None when keys are not required; 401 without a key, 403 with a wrong one."""
        if not self.required:
            return None
        if presented is None:
            raise ApiError(
                401,
                "missing_key",
                "This call needs an API key.",
                "Send it as `X-API-Key: …` or `Authorization: Bearer …`.",
            )
        digest = _digest(presented)
        found = None
        for key in self.keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        if found is None:
            raise ApiError(403, "unknown_key", "This API key is not known.", "Check it, or ask the operator for one.")
        return found

    def check_call(self, key: Key, call: str, origin: bytes | None) -> None:
        """Raise a 403 if a browse key asks for more than it may, or a key stands in a page that it was not given to."""
        if key.origins is None:
            if origin in self._browse_only:
                raise ApiError(
                    403,
                    "key_origin",
                    "This key does not belong in a web page.",
                    "Use a key of BUDGETREC_BROWSE_KEYS there.",
                )
            return
        if call not in BROWSED:
            raise ApiError(
                403,
                "key_role",
                "This key may stand in a browser and asks for recommendations and similar items only.",
                "Call from a server, with a key of BUDGETREC_API_KEYS.",
            )
        # Programs and pages of the service's own host send no Origin.
        if origin is not None and origin not in key.origins:
            raise ApiError(
                403,
                "key_origin",
                "This key was not given to pages of this origin.",
                "Add the origin to the key's entry in BUDGETREC_BROWSE_KEYS, or use another key.",
            )

    def check_admin(self, presented: bytes | None, caller: Caller) -> None:
        """Let an admin call pass: with the admin key, over the admin socket, or, without keys, from this machine."""
        if caller.trusted:
            return
        if self._admin is None:
            if not self.required and caller.is_local():
                return
            raise ApiError(
                403,
                "admin_only",
                "Without an admin key, admin calls work only from programs on the same machine, and only when no API "
                "keys are set.",
                "Set BUDGETREC_ADMIN_KEY and send it as `X-API-Key`, or use the socket of BUDGETREC_ADMIN_SOCKET.",
            )
        if presented is None:
            raise ApiError(
                401,
                "missing_key",
                "This call needs the admin key.",
                "Send it as `X-API-Key: …` or `Authorization: Bearer …`.",
            )
        if not hmac.compare_digest(self._admin, _digest(presented)):
            raise ApiError(
                403, "admin_only", "This key is not the admin key.", "Send the key set as BUDGETREC_ADMIN_KEY."
            )


class Caller(NamedTuple):
    """Where a request came from.

    client   the address at the other end of the connection
    trusted  it came over the admin socket, which only the operator can open
    """

    client: str | None
    headers: Sequence[tuple[bytes, bytes]]
    trusted: bool = False

    def is_local(self) -> bool:
        """Whether a program on this machine calls directly.

        A proxy on this machine passes on what others ask: it leaves forwarding headers, or its own host name. A browser
        on this machine sends what a page of anybody says: with an Origin, or under a host name that leads here.
        """
        hosts = [value for name, value in self.headers if name == b"host"]
        foreign = any(name in _FOREIGN for name, _ in self.headers)
        return is_loopback(self.client) and not foreign and len(hosts) == 1 and _is_loopback_host(hosts[0])


# A call that carries one of these came through a proxy or from a web page.
_FOREIGN = frozenset((
    b"forwarded", b"origin", b"sec-fetch-site", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto",
    b"x-real-ip",
))  # fmt: skip


def origin_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the origin of the web page that a request comes from, None for other callers."""
    for name, value in headers:
        if name == b"origin":
            return value.strip()
    return None


def presented_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the key a request carries, from `X-API-Key` or `Authorization: Bearer`."""
    for name, value in headers:
        if name == b"x-api-key":
            return value.strip()
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].strip()
    return None


def is_loopback(client: str | None) -> bool:
    """Whether an address is this machine's own."""
    if client is None:
        return False
    try:
        address = ipaddress.ip_address(client.split("%", 1)[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_loopback_host(value: bytes) -> bool:
    """Whether a Host header names this machine by a loopback address or as localhost, with or without a port."""
    host = value.decode("latin-1").strip()
    name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    return name.lower() == "localhost" or is_loopback(name)


def _digest(key: bytes) -> bytes:
    return sha256(key).digest()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as reason:
        raise ValueError(f"the keys in {path} cannot be read ({reason.strerror}); check the path") from None


def _entries(listed: SecretStr, file: Path | None) -> list[str]:
    """Return what stands between the commas of a setting, and the lines of a file that are no comments."""
    entries = [part.strip() for part in listed.get_secret_value().split(",") if part.strip()]
    if file is not None:
        lines = _read(file).splitlines()
        entries += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return entries


def _parse_browse(entry: str, number: int, before: int) -> Key:
    """Read `name:key:products_per_second:origin origin…`; all four parts are needed."""
    name, secret, limit, origins = [*entry.split(":", 3), "", "", ""][:4]
    called = f"Browse key {number} ({name if secret else 'without a name'})"
    if len(secret) < 8:
        raise ValueError(f"{called} is shorter than 8 characters; write it as name:key:products_per_second:origins")
    try:
        rate = float(limit)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1e15:
        raise ValueError(f"{called} needs a limit, a number of products per second above 0: everybody can read it")
    allowed = origins.lower().split()
    if not allowed:
        raise ValueError(f"{called} names no origin; write those of your pages, like https://shop.example")
    for origin in allowed:
        if not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"{called} has the origin {origin!r}, which is none; write scheme and host, like https://shop.example"
            )
    return Key(before + number - 1, name, _digest(secret.encode()), rate, frozenset(map(str.encode, allowed)))


def _parse(entry: str, number: int, settings: Settings) -> Key:
    name, separator, rest = entry.partition(":")
    if not separator:
        name, rest = f"key-{number}", entry
    secret, _, limit = rest.partition(":")
    if len(secret) < 8:
        raise ValueError(f"API key {number} ({name}) is shorter than 8 characters; use a longer one")
    try:
        rate = float(limit) if limit else settings.key_products_per_second
    except ValueError:
        raise ValueError(
            f"The limit of API key {number} ({name}) is not a number; write it as name:key:products_per_second"
        ) from None
    if not 0 <= rate <= 1e15:
        raise ValueError(
            f"The limit of API key {number} ({name}) must lie between 0 (none) and 1e15 products per second"
        )
    return Key(number - 1, name, _digest(secret.encode()), rate)
