"""PyrateLimiter: a log of hits for each key, in memory; a factory of buckets is how it has more keys than one."""

from pyrate_limiter import BucketFactory, InMemoryBucket, Limiter, MonotonicClock, Rate, RateItem

name = "PyrateLimiter"
distribution = "pyrate-limiter"
hit = "ok = limiter.try_acquire(key, blocking=False)"


class Buckets(BucketFactory):
    def __init__(self, rates):
        self.rates, self.buckets, self.clock = rates, {}, MonotonicClock()  # an InMemoryBucket's clock

    def wrap_item(self, name, weight=1):
        return RateItem(name, self.clock.now(), weight=weight)

    def get(self, item):
        bucket = self.buckets.get(item.name)
        if bucket is None:
            bucket = self.buckets[item.name] = self.create(InMemoryBucket, self.rates)
        return bucket


def setup(limit, seconds):
    return {"limiter": Limiter(Buckets([Rate(limit, 1_000 * seconds)]))}


def close(names):
    names["limiter"].close()
