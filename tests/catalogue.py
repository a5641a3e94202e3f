"""Every method by kind, so that a fault met in one of them is tested in all of them.

Each entry calls one method of a store with one thing left open: the key, one integer, one time, one value.
"""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# Methods that take a key and make no difference between a first and a later call, as far as arguments go.
READERS = {
    "get": lambda s, k: s.get(k),
    "mget": lambda s, k: s.mget(k),
    "mget_list": lambda s, k: s.mget(["other", k]),
    "exists": lambda s, k: s.exists(k),
    "exists_second": lambda s, k: s.exists("other", k),
    "ttl": lambda s, k: s.ttl(k),
    "pttl": lambda s, k: s.pttl(k),
    "contains": lambda s, k: k in s,
    "getitem": lambda s, k: s[k],
    "getex_plain": lambda s, k: s.getex(k),
}
CHANGERS = {  # of a key that may be there, without creating one
    "delete": lambda s, k: s.delete(k),
    "delete_second": lambda s, k: s.delete("other", k),
    "delitem": lambda s, k: s.__delitem__(k),
    "getdel": lambda s, k: s.getdel(k),
    "getex": lambda s, k: s.getex(k, ex=50),
    "getex_persist": lambda s, k: s.getex(k, persist=True),
    "decrpos": lambda s, k: s.decrpos(k),
    "expire": lambda s, k: s.expire(k, 50),
    "pexpire": lambda s, k: s.pexpire(k, 50_000),
    "persist": lambda s, k: s.persist(k),
}
ADDERS = {
    "incr": lambda s, k: s.incr(k),
    "incr_ex": lambda s, k: s.incr(k, ex=50),
    "incrby": lambda s, k: s.incrby(k, 2),
    "decr": lambda s, k: s.decr(k),
    "decrby": lambda s, k: s.decrby(k, 2),
    "increx": lambda s, k: s.increx(k, 50),
    "pincrex": lambda s, k: s.pincrex(k, 50_000),
    "incrbound": lambda s, k: s.incrbound(k, 1, INT64_MAX),
    "incrbound_seconds": lambda s, k: s.incrbound(k, 1, INT64_MAX, seconds=50),
}
WRITERS = {
    "set": lambda s, k: s.set(k, 5),
    "set_nx": lambda s, k: s.set(k, 5, nx=True),
    "set_xx": lambda s, k: s.set(k, 5, xx=True),
    "set_get": lambda s, k: s.set(k, 5, get=True),
    "getset": lambda s, k: s.getset(k, 5),
    "mset": lambda s, k: s.mset({k: 5}),
    "mset_second": lambda s, k: s.mset({"other": 5, k: 5}),
}
BY_KEY = READERS | CHANGERS | ADDERS | WRITERS

# Every parameter that must be an integer: (method and parameter) -> (its name in messages, the call).
INTEGERS = {
    "incr": ("amount", lambda s, n: s.incr("k", n)),
    "incrby": ("amount", lambda s, n: s.incrby("k", n)),
    "decr": ("amount", lambda s, n: s.decr("k", n)),
    "decrby": ("amount", lambda s, n: s.decrby("k", n)),
    "incrbound_delta": ("delta", lambda s, n: s.incrbound("k", n, 100)),
    "incrbound_max": ("max", lambda s, n: s.incrbound("k", 1, n)),
}

# Every time: (name in messages, nanoseconds per unit, the call). SIGNED ones take zero and less as "gone at once".
SIGNED_TIMES = {
    "increx": ("seconds", 10**9, lambda s, t: s.increx("k", t)),
    "pincrex": ("milliseconds", 10**6, lambda s, t: s.pincrex("k", t)),
    "incrbound": ("seconds", 10**9, lambda s, t: s.incrbound("k", 1, INT64_MAX, seconds=t)),
    "expire": ("seconds", 10**9, lambda s, t: s.expire("k", t)),
    "expire_nx": ("seconds", 10**9, lambda s, t: s.expire("k", t, nx=True)),
    "expire_xx": ("seconds", 10**9, lambda s, t: s.expire("k", t, xx=True)),
    "expire_gt": ("seconds", 10**9, lambda s, t: s.expire("k", t, gt=True)),
    "expire_lt": ("seconds", 10**9, lambda s, t: s.expire("k", t, lt=True)),
    "pexpire": ("milliseconds", 10**6, lambda s, t: s.pexpire("k", t)),
    "pexpire_gt": ("milliseconds", 10**6, lambda s, t: s.pexpire("k", t, gt=True)),
}
POSITIVE_TIMES = {
    f"{method}_{option}": (option, unit, lambda s, t, call=call, option=option: call(s, {option: t}))
    for option, unit in (("ex", 10**9), ("px", 10**6))
    for method, call in {
        "incr": lambda s, o: s.incr("k", **o),
        "incrby": lambda s, o: s.incrby("k", 1, **o),
        "decr": lambda s, o: s.decr("k", **o),
        "decrby": lambda s, o: s.decrby("k", 1, **o),
        "set": lambda s, o: s.set("k", 7, **o),
        "set_nx": lambda s, o: s.set("k", 7, nx=True, **o),
        "set_xx": lambda s, o: s.set("k", 7, xx=True, **o),
        "set_get": lambda s, o: s.set("k", 7, get=True, **o),
        "getex": lambda s, o: s.getex("k", **o),
    }.items()
}
TIMES = SIGNED_TIMES | POSITIVE_TIMES

# Every place that stores a caller's value.
VALUES = {
    "set": lambda s, v: s.set("k", v),
    "set_nx": lambda s, v: s.set("k", v, nx=True),
    "set_get": lambda s, v: s.set("k", v, get=True),
    "getset": lambda s, v: s.getset("k", v),
    "mset": lambda s, v: s.mset({"k": v}),
    "mset_second": lambda s, v: s.mset({"k2": 1, "k": v}),
}

# All that must be integers, times included: what is refused there is refused in the same words.
NUMBERS = INTEGERS | {name: (parameter, call) for name, (parameter, _, call) in TIMES.items()}
