"""For scale: `d[k] = d.get(k, 0) + 1` over the same number of live keys, in random order. Prints one line."""
import random
import sys
from time import thread_time

n, rounds = int(sys.argv[1]), int(sys.argv[2])
keys = [f"rate:user{number:07d}" for number in range(n)]  # 16 characters
d = dict.fromkeys(keys, 0)
random.Random(1).shuffle(keys)


def increment_all(d, keys):
    for k in keys:
        d[k] = d.get(k, 0) + 1


def loop_alone(d, keys):
    for k in keys:
        pass


def times(function):
    result = []
    for _ in range(rounds):
        begun = thread_time()
        function(d, keys)
        result.append((thread_time() - begun) / n * 1e9)
    return sorted(result)


increment, empty = times(increment_all), times(loop_alone)
print(
    f"For scale, `d[k] = d.get(k, 0) + 1` in CPython {sys.version.split()[0]}, {n} keys of 16 characters in random order: "
    f"{increment[rounds // 2]:.0f} ns ({increment[0]:.0f}..{increment[-1]:.0f}), of which the bare loop is "
    f"{empty[rounds // 2]:.0f} ns."
)
