"""The client handed in: whose it is, how it is called, and what its failures become."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import resources
from typing import Any

from goblin import errors

# The modules are not imported here: whoever hands in a client has imported its module, and may have only one of them.
_LIBRARIES = {"redis": ("Redis", "RedisCluster"), "valkey": ("Valkey", "ValkeyCluster")}
# Scripts that judge hits, and so need the algorithms as well.
_JUDGING = {"decide", "refund", "unreserve"}
_SCRIPTS = (
    "add decide decrpos delete expire getdel getex incrbound increx mset now persist read refund set unreserve".split()
)
# Between two of them a server does other work: a scan must not hold it up.
SCAN_COUNT = 1_000


class Link:
    """A client, with the scripts registered on it."""

    def __init__(self, client: Any, *, is_async: bool) -> None:
        library, self.is_cluster = _library_of(client, is_async)
        root = sys.modules[library]
        self.client = client
        # What a cluster's client raises by itself, such as for keys in different slots, is no kind of the first.
        names = [f"{_LIBRARIES[library][0]}{ending}" for ending in ("Error", "ClusterException")]
        self.errors: tuple[type[BaseException], ...] = (*(getattr(root.exceptions, name) for name in names), OSError)
        self._full: Any = getattr(root.exceptions, "OutOfMemoryError", ())
        # Bytes, so that the client's encoding has no say in them.
        self.scripts: dict[str, Callable[..., Any]] = {
            name: client.register_script(text) for name, text in _TEXTS.items()
        }

    def failure(self, error: BaseException) -> Exception:
        """What a client's error becomes; to be raised from it."""
        what = f"{errors._type_name(type(error))}: {error}"
        if isinstance(error, self._full):
            return errors.CapacityError(f"the server has no memory left for another entry ({what})")
        return errors.StoreError(f"the server could not be asked ({what})")


def _library_of(client: Any, is_async: bool) -> tuple[str, bool]:
    """(its name, whether the client is one of a cluster)"""
    for name, (single, cluster) in _LIBRARIES.items():
        for wants_async, module in ((False, sys.modules.get(name)), (True, sys.modules.get(f"{name}.asyncio"))):
            kinds = [kind for kind in (getattr(module, single, None), getattr(module, cluster, None)) if kind]
            if not isinstance(client, tuple(kinds)) or hasattr(type(client), "execute"):
                continue  # another kind, or a pipeline, whose commands give no reply
            if wants_async != is_async:
                other = "AsyncRedisCounters" if wants_async else "RedisCounters"
                has = "an async" if wants_async else "no async"
                raise TypeError(f"client is {has} client, {errors._type_name(type(client))}: it is for {other}")
            return name, len(kinds) == 2 and isinstance(client, kinds[1])
    prefix = ".asyncio" if is_async else ""
    allowed = [f"{name}{prefix}.{kind}" for name, kinds in _LIBRARIES.items() for kind in kinds]
    raise TypeError(f"client must be one of {', '.join(allowed)}, not {errors._type_name(type(client))}")


def prefix_bytes(prefix: object) -> bytes:
    """A prefix has no braces: what stands in the first pair of them says in which slot of a cluster a key lies."""
    if not isinstance(prefix, str):
        raise TypeError(f"prefix must be a str, not {errors._type_name(type(prefix))}")
    if "{" in prefix or "}" in prefix:
        raise ValueError(f"prefix={errors._shown(prefix)} (allowed: no braces)")
    return str.encode(prefix)


def _script_text(name: str) -> bytes:
    """A script as the server gets it: what all have in common, then its own lines."""
    parts = ["_common", *(["_limits"] if name in _JUDGING else []), name]
    folder = resources.files("goblin.redis") / "lua"
    return b"\n".join((folder / f"{part}.lua").read_bytes() for part in parts)


_TEXTS = {name: _script_text(name) for name in _SCRIPTS}
