"""A redis-server on this machine, over a unix socket, by redis-py: INCR, and EXPIRE at the first, in one script.

`setup` starts the server, on another core than the caller's where there is one; `close` stops it.
"""

import os
import shutil
import subprocess
import tempfile
import time

import redis

name = "redis-server, unix socket"
distribution = "redis"
program = "redis-server"
hit = "ok = script([key], [seconds]) <= limit"

SCRIPT = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return count
"""


def other_cores(process=0):
    if hasattr(os, "sched_setaffinity"):
        others = set(range(os.cpu_count())) - os.sched_getaffinity(0)
        if others:
            os.sched_setaffinity(process, others)


def setup(limit, seconds):
    folder = tempfile.mkdtemp(prefix="goblin-bench-")
    socket = os.path.join(folder, "socket")
    options = f"--port 0 --unixsocket {socket} --appendonly no --dir {folder}".split()
    command = ["redis-server", *options, "--save", ""]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    other_cores(server.pid)
    client = redis.Redis(unix_socket_path=socket)
    for _ in range(500):
        try:
            client.ping()
            break
        except redis.exceptions.ConnectionError:
            time.sleep(0.01)
    else:
        server.kill()
        raise RuntimeError("redis-server does not answer")
    script = client.register_script(SCRIPT)
    return {"script": script, "seconds": seconds, "limit": limit, "client": client, "server": server, "folder": folder}


def fill(names, keys):
    for start in range(0, len(keys), 10_000):
        pipeline = names["client"].pipeline(transaction=False)
        for key in keys[start : start + 10_000]:
            pipeline.set(key, 1, ex=names["seconds"])
        pipeline.execute()


def close(names):
    names["client"].close()
    names["server"].terminate()
    names["server"].wait()
    shutil.rmtree(names["folder"], ignore_errors=True)
