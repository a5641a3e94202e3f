"""rust-py-rate-limit: a fixed window in Rust."""

from rust_py_rate_limit import RateLimiter

name = "rust-py-rate-limit"
distribution = "rust-py-rate-limit"
hit = "ok = limiter.allow(key)"


def setup(limit, seconds):
    return {"limiter": RateLimiter(limit=limit, window_seconds=seconds)}
