"""token-bucket, in its memory storage. Idle buckets are never removed."""

import token_bucket

name = "token-bucket"
distribution = "token-bucket"
hit = "ok = limiter.consume(key)"


def setup(limit, seconds):
    return {"limiter": token_bucket.Limiter(limit / seconds, limit, token_bucket.MemoryStorage())}
