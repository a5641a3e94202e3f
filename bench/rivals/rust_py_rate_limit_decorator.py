"""rust-py-rate-limit: a decorated function with a budget for each key, which a function makes of its argument."""

from rust_py_rate_limit import RateLimiter, RateLimitExceeded

name = "rust-py-rate-limit decorator"
distribution = "rust-py-rate-limit"
works = ("decorator",)
hit = "ok = function(key)"
refusal = RateLimitExceeded


def setup(limit, seconds):
    limiter = RateLimiter(limit=limit, window_seconds=seconds)

    @limiter.limit(lambda user: user)
    def function(user):
        return True

    return {"function": function}
