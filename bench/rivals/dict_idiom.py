"""The dict idiom. No lock, no window, nothing is ever forgotten: not a rival but a yardstick."""

name = "dict idiom (no lock, no expiry)"
expires = False
hit = "counts[key] = count = counts.get(key, 0) + 1; ok = count <= limit"


def setup(limit, seconds):
    return {"counts": {}, "limit": limit}
