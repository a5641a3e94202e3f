"""Every method as a call of one script: arguments checked and put into words, the reply read. Nothing here is sent.

`RedisCounters` and `AsyncRedisCounters` share all of this; what differs is who waits for the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from goblin import _convert as convert
from goblin import errors
from goblin.redis._client import prefix_bytes
from goblin.redis._given_up import GivenUp, Slot, State

_T = TypeVar("_T")
_Read = Callable[[list[str]], _T]
_Quota = tuple[str, int, int, int, int]

NO_DEADLINE = 2**63 - 1


class Call(Generic[_T]):
    """One script with its words. Without a script it is settled: nothing has to be asked."""

    __slots__ = ("args", "keys", "read", "refused", "script", "time")

    def __init__(
        self,
        script: str | None,
        keys: list[bytes],
        args: list[bytes | int | str],
        read: _Read[_T],
        *,
        refused: _T | None = None,
        time: Callable[[int], Exception] | None = None,
    ) -> None:
        self.script, self.keys, self.args, self.read = script, keys, args, read
        self.refused = refused  # the result where the script says no
        self.time = time  # makes the exception for a deadline beyond the horizon

    def result(self, reply: Any) -> _T:
        """What the script's reply means; StoreError where it means nothing."""
        try:
            # str from a client that decodes replies, bytes from others; ASCII in any case.
            status, *words = [word if type(word) is str else word.decode("ascii") for word in reply]
            if status == "ok":
                return self.read(words)
            if status == "refused" and self.refused is not None:
                return self.refused
            wrong = self._wrong(status, words)
        except errors.WrongTypeError:
            raise
        except Exception as error:
            raise errors.StoreError(f"the server gave an answer to {self.script} that means nothing") from error
        raise wrong

    def _wrong(self, status: str, words: list[str]) -> Exception:
        if status == "wrong_kind":
            return wrong_kind()
        if status == "overflow":
            return errors.overflow()
        if status == "bad_time" and self.time is not None:
            return self.time(int(words[0]) if words else 0)
        raise ValueError(f"status {status!r}")


def wrong_kind() -> errors.WrongTypeError:
    return errors.WrongTypeError(errors.WRONG_KIND)


def settled(value: _T) -> Call[_T]:
    return Call(None, [], [], lambda words: value)


def number(words: list[str]) -> int:
    return int(words[0])


def number_or_none(words: list[str]) -> int | None:
    return int(words[0]) if words[0] else None


def yes(words: list[str]) -> bool:
    return True


def nothing(words: list[str]) -> None:
    return None


def three_by_three(words: list[str]) -> Iterable[tuple[str, str, str]]:
    """(kind, value, milliseconds left) for each key that read.lua was asked for."""
    return zip(words[::3], words[1::3], words[2::3], strict=True)


def bad_expiry(ex: object, px: object) -> Exception:
    return errors.bad_time("px", px, 1) if ex is None else errors.bad_time("ex", ex, 1)


class Calls:
    """A prefix, and the calls on the keys below it."""

    # For tests: microseconds in the place of the server's clock. A server's clock cannot be moved.
    _now_us: Callable[[], int] | None = None

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix_bytes(prefix)
        self._is_cluster = False
        self._given_up = GivenUp()

    def _clock_word(self) -> str:
        return "" if self._now_us is None else str(self._now_us())

    def _key(self, key: object) -> bytes:
        return self._prefix + convert.key_bytes(key)

    def _keys(self, keys: Iterable[object]) -> list[bytes]:
        return [self._key(key) for key in keys]

    # ---- counting

    def _call_increx(self, key: object, time: object, name: str) -> Call[int]:
        full_key = self._key(key)
        ttl_ns, fits = convert.duration(time, name)
        if not fits:
            raise errors.bad_time(name, time)
        return Call("increx", [full_key], [ttl_ns], number, time=lambda _: errors.bad_time(name, time))

    def _call_incrbound(self, key: object, delta: object, most: object, seconds: object) -> Call[int]:
        full_key = self._key(key)
        args: list[bytes | int | str] = [convert.integer(delta, "delta"), convert.integer(most, "max"), ""]
        if seconds is not None:
            args[2], fits = convert.duration(seconds, "seconds")
            if not fits:
                raise errors.bad_time("seconds", seconds)
        time = lambda _: errors.bad_time("seconds", seconds)
        return Call("incrbound", [full_key], args, number, refused=-1, time=time)

    def _call_decrpos(self, key: object) -> Call[int]:
        return Call("decrpos", [self._key(key)], [], number, refused=-1)

    def _call_add(self, key: object, amount: object, sign: str, ex: object, px: object) -> Call[int]:
        full_key = self._key(key)
        number_asked = convert.integer(amount, "amount")
        ttl_ns = convert.judged_expiry(ex, px, convert.expiry(ex, px))
        args: list[bytes | int | str] = [number_asked, sign, "" if ttl_ns is None else ttl_ns]
        return Call("add", [full_key], args, number, time=lambda _: bad_expiry(ex, px))

    # ---- limits

    def _call_hit(
        self, kind: str, key: object, limit: object, seconds: object, cost: object, burst: object = None
    ) -> Call[int]:
        full_key = self._key(key)
        quota, number_asked = convert.quota(kind, limit, seconds, cost, burst)
        args: list[bytes | int | str] = [number_asked, "hit", "", *quota]
        return Call("decide", [full_key], args, number, time=lambda _: errors.bad_time("seconds", seconds, 0))

    def _call_decide(self, pairs: Iterable[Any], cost: object, mode: str, max_wait_ns: object) -> Call[Any]:
        keys, quotas, given, number_asked, most_wait_ns = convert.entries(pairs, cost, mode, max_wait_ns)
        args: list[bytes | int | str] = [number_asked, mode, most_wait_ns]
        for quota in quotas:
            args += quota

        def read(words: list[str]) -> Any:
            verdict, remaining, reset_ns, index, at_ns, spent = map(int, words[:6])
            stamps = None
            if spent:
                marks = three_by_three(words[6:])
                stamps = tuple(
                    (key, quota, int(mark), state_of(before), state_of(after))
                    for (key, quota), (mark, before, after) in zip(given, marks, strict=True)
                )
            return verdict, remaining, reset_ns, index, at_ns, stamps

        def time(index: int) -> Exception:
            return errors.bad_time("period_ns", given[index][1][2], 1)

        return Call("decide", [self._prefix + key for key in keys], args, read, time=time)

    def _call_refund(self, stamps: Iterable[Any], cost: object) -> Call[bool]:
        keys, quotas, marks, number_asked = convert.stamps(stamps, cost)
        args: list[bytes | int | str] = [number_asked]
        for quota, mark in zip(quotas, marks, strict=True):
            args += [*quota, mark]
        if not keys:
            return settled(False)
        return Call("refund", [self._prefix + key for key in keys], args, lambda words: words[0] == "1")

    def _call_unreserve(self, stamps: Iterable[Any]) -> Call[None]:
        rows = [
            (self._key(key), convert.integer(told, "stamp"), convert.state(before), convert.state(after))
            for key, _quota, told, before, after in stamps
        ]
        keys: list[bytes] = []
        slots: list[list[Slot]] = []
        args: list[bytes | int | str] = []
        for full_key, told_ns, before, after in rows:
            if after is None:
                continue  # a hit, not a reservation: refund() is for those
            # Noted first: should the server not answer, the next to give up behind it puts it back as well.
            noted = self._given_up.note(full_key, (after, before, told_ns))
            keys.append(full_key)
            slots.append(noted)
            args.append(len(noted))
            for slot_after, slot_before, slot_told_ns in noted:
                args += [words_of(slot_after), "" if slot_before is None else words_of(slot_before), slot_told_ns]
        if not keys:
            return settled(None)

        def read(words: list[str]) -> None:
            now_ns, rest = int(words[0]), words[1:]
            for full_key, noted in zip(keys, slots, strict=True):
                count = int(rest[0])
                self._given_up.settle(full_key, [noted[int(at)] for at in rest[1 : 1 + count]], now_ns)
                rest = rest[1 + count :]

        return Call("unreserve", keys, args, read)

    def _call_now_ns(self) -> Call[int]:
        return Call("now", [], [], number)

    # ---- reading and writing

    def _call_get(self, key: object, default: Any) -> Call[Any]:
        def read(words: list[str]) -> Any:
            kind, value, _ = words
            if kind not in ("", "counter"):
                raise wrong_kind()
            return int(value) if kind else default

        return Call("read", [self._key(key)], [], read)

    def _call_set(
        self, key: object, value: object, ex: object, px: object, **options: bool
    ) -> Call[tuple[int | None, bool]]:
        full_key = self._key(key)
        number_asked = convert.stored_value(value)
        ttl = convert.expiry(ex, px)
        asked = [name for name, is_asked in options.items() if is_asked]
        if "nx" in asked and "xx" in asked:
            raise errors.conflict("nx", "xx")
        if ttl is not None and "keepttl" in asked:
            raise errors.conflict("keepttl", "px" if ex is None else "ex")
        ttl_ns = convert.judged_expiry(ex, px, ttl)
        self._given_up.forget([full_key])
        args: list[bytes | int | str] = [number_asked, "" if ttl_ns is None else ttl_ns, ",".join(asked)]
        return Call(
            "set",
            [full_key],
            args,
            lambda words: (number_or_none(words), words[1] == "1"),
            time=lambda _: bad_expiry(ex, px),
        )

    def _call_getdel(self, key: object) -> Call[int | None]:
        return Call("getdel", [self._key(key)], [], number_or_none)

    def _call_getex(self, key: object, ex: object, px: object, persist: bool) -> Call[int | None]:
        full_key = self._key(key)
        ttl = convert.expiry(ex, px)
        if ttl is not None and persist:
            raise errors.conflict("persist", "px" if ex is None else "ex")
        ttl_ns = convert.judged_expiry(ex, px, ttl)
        if ttl_ns is None and not persist:
            get: Call[int | None] = self._call_get(key, None)
            return get
        args: list[bytes | int | str] = ["" if ttl_ns is None else ttl_ns]
        return Call("getex", [full_key], args, number_or_none, time=lambda _: bad_expiry(ex, px))

    def _call_mget(self, keys: tuple[Any, ...]) -> Call[list[int | None]]:
        if len(keys) == 1 and not isinstance(keys[0], (str, bytes)):
            try:
                several = iter(keys[0])
            except TypeError:
                raise errors.not_a_key(keys[0]) from None
            keys = tuple(several)
        full_keys = self._keys(keys)
        return self._call_read(full_keys, lambda kind, value, _: int(value) if value else None)

    def _call_read(self, full_keys: list[bytes], read_one: Callable[[str, str, str], _T]) -> Call[list[_T]]:
        if not full_keys:
            return settled([])
        return Call("read", full_keys, [], lambda words: [read_one(*row) for row in three_by_three(words)])

    def _call_mset(self, mapping: Any) -> Call[None]:
        try:
            items = mapping.items
        except AttributeError:
            raise TypeError(f"mset takes a mapping of keys to values, not {errors._type_name(type(mapping))}") from None
        pairs = [(self._key(key), convert.stored_value(value)) for key, value in items()]
        if not pairs:
            return settled(None)
        keys = [key for key, _ in pairs]
        self._given_up.forget(keys)
        return Call("mset", keys, [value for _, value in pairs], nothing)

    def _call_delete(self, keys: tuple[Any, ...]) -> Call[int]:
        full_keys = self._keys(keys)
        if not full_keys:
            return settled(0)
        self._given_up.forget(full_keys)
        return Call("delete", full_keys, [], number)

    def _call_exists(self, keys: tuple[Any, ...]) -> Call[int]:
        full_keys = self._keys(keys)
        if not full_keys:
            return settled(0)
        return Call("read", full_keys, [], lambda words: sum(kind != "" for kind, *_ in three_by_three(words)))

    def _call_type(self, key: object) -> Call[Any]:
        return Call("read", [self._key(key)], [], lambda words: words[0] or None)

    # ---- TTLs

    def _call_expire(
        self, key: object, time: object, name: str, *, nx: bool, xx: bool, gt: bool, lt: bool
    ) -> Call[bool]:
        full_key = self._key(key)
        ttl_ns, fits = convert.duration(time, name)
        if nx and (xx or gt or lt):
            raise errors.conflict("nx", "xx" if xx else "gt" if gt else "lt")
        if gt and lt:
            raise errors.conflict("gt", "lt")
        if not fits:
            raise errors.bad_time(name, time)
        flags = ",".join(flag for flag, is_asked in {"nx": nx, "xx": xx, "gt": gt, "lt": lt}.items() if is_asked)
        return Call(
            "expire", [full_key], [ttl_ns, flags], yes, refused=False, time=lambda _: errors.bad_time(name, time)
        )

    def _call_persist(self, key: object) -> Call[bool]:
        return Call("persist", [self._key(key)], [], yes, refused=False)

    def _call_pttl(self, key: object) -> Call[int]:
        return Call("read", [self._key(key)], [], lambda words: int(words[2]))

    # ---- the keys below the prefix

    def _glob(self, match: object) -> bytes | None:
        """What the server is to look for; None: everything."""
        pattern = convert.pattern(match)
        if pattern is None and not self._prefix:
            return None
        escaped = b"".join(b"\\" + bytes([byte]) if byte in b"*?[\\" else bytes([byte]) for byte in self._prefix)
        return escaped + (b"*" if pattern is None else pattern)

    def _bare(self, full_keys: Iterable[bytes]) -> list[str | bytes]:
        return convert.key_texts(key[len(self._prefix) :] for key in full_keys)

    def _together(self, full_keys: list[bytes]) -> Iterable[list[bytes]]:
        """Keys that may be asked for in one call: in a cluster they lie in different slots."""
        return [[key] for key in full_keys] if self._is_cluster else [full_keys]

    def _check_clear(self) -> None:
        if not self._prefix:
            raise ValueError(
                "clear() needs a store with a prefix: without one it would empty the whole database, others' keys too"
            )

    def __reduce__(self) -> Any:
        raise TypeError(f"{errors._type_name(type(self))} cannot be copied or pickled: it holds a client")

    def __bool__(self) -> bool:
        return True  # a store is not its contents

    def __repr__(self) -> str:
        return f"<goblin.redis.{errors._type_name(type(self))}: prefix {self._prefix.decode()!r}>"


def state_of(words: str) -> State | None:
    if not words:
        return None
    deadline_ns, excess, told_ns = map(int, words.split(":"))
    return deadline_ns, excess, told_ns


def words_of(state: State) -> str:
    return ":".join(map(str, state))


def seconds_of(left_ms: int) -> int:
    """TTL of a PTTL, as Redis rounds it."""
    return (left_ms + 500) // 1000 if left_ms >= 0 else left_ms
