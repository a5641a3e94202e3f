"""Forks beside working threads, and subinterpreters: nobody hangs, and the parent does not notice.

A child has a copy of every counter, as of the fork, and from then on counts for itself. Everything runs in processes
of its own, so that one which hangs is ended by its alarm. GOBLIN_CI=1: 300 forks.
"""

import os
import subprocess
import sys
import textwrap

import pytest

from scale import SOAK

FORKS = 3_000 if SOAK else 300 if os.environ.get("GOBLIN_CI", "") not in ("", "0") else 25
GUARD_SECONDS = 300

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

# Children end by os._exit: they have a copy of pytest's buffers, of atexit's list and of threads that do not run.
COMMON = """
import faulthandler, os, signal, sys, threading, warnings
import goblin

# Python 3.12 and later warn of a fork beside threads, since somebody's lock may be held in the child. That is tested.
warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
FORKS = int(sys.argv[1])
sys.setswitchinterval(1e-4)  # so that the forking thread, one of nine, has its turn
faulthandler.register(signal.SIGALRM, chain=True)  # says where it hung
signal.alarm(280)  # guards against hanging
going = True

def in_child(function, *args):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(20)
            function(*args)
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"a child ended with status {status} (14: it hung)"

def beside_threads(work, function, count=8):
    global going
    def run(number):
        while going:
            work(number)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        function()
    finally:
        going = False
        for thread in threads:
            thread.join()
"""


def run(program, *options):
    command = [sys.executable, *options, "-c", COMMON + textwrap.dedent(program), str(FORKS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_SECONDS)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stdout + done.stderr


@needs_fork
def test_fork_beside_counting_threads_leaves_a_copy_that_can_be_used_and_dropped():
    run("""
        store = goblin.Counters()
        limiter = goblin.RateLimiter("5/hour; 50/day", store=store)
        rounds = [0] * 8
        def count(number):
            n = rounds[number] = rounds[number] + 1
            store.incr("all")
            store.mset({"a": n, "b": n})
            store.increx(f"k{n % 5000}", 60)
            store.delete(f"k{n * 7 % 5000}", f"k{n * 3 % 5000}")
            limiter.hit(n % 100)
            if n % 500 == 0:
                store.sweep(), store.stats(), len(store)

        def child(fork):
            global store, limiter
            store._check()
            assert store.get("mine") == fork        # as of the fork
            before = store.get("all")
            assert store.incr("all") == (before or 0) + 1   # and nobody else counts here
            a, b = store.mget("a", "b")
            assert a == b                           # no step is copied half done
            assert store.set("mine", -1)
            assert dict(store.items())["mine"] == -1
            assert len(list(store)) <= len(store) and store.most_common(1)
            assert [bool(limiter.hit("new")) for hit in range(6)] == [True] * 5 + [False]
            thread = threading.Thread(target=store.incr, args=("all",))
            thread.start()
            thread.join()
            assert store.get("all") == (before or 0) + 2
            store.sweep(), store.stats(), store.clear()
            assert len(store) == 0
            del store, limiter

        def forks():
            for fork in range(1, FORKS + 1):
                assert store.incr("mine") == fork   # what the child did to it is not seen here
                in_child(child, fork)

        beside_threads(count, forks)
        store._check()
        assert store.get("mine") == FORKS and store.get("all") == sum(rounds)
        print("fine")
    """)


@needs_fork
def test_fork_beside_stores_being_made_and_dropped_leaves_the_child_able():
    run("""
        def make(number):
            store = goblin.Counters()
            store.incr("k")
            goblin.set_default_store(None)
            goblin.default_store().incr("k")

        def grandchild():
            assert goblin.Counters().incr("k") == 1

        def child(kept):
            assert goblin.Counters().incr("k") == 1
            assert goblin.default_store().incr("mine") == 1  # its lock may have been held at the fork
            assert kept.incr("k") == 2
            in_child(grandchild)

        def forks():
            for fork in range(FORKS):
                kept = goblin.Counters()
                kept.incr("k")
                in_child(child, kept)

        beside_threads(make, forks)
        print("fine")
    """)


@needs_fork
def test_fork_by_a_thread_that_shares_a_clock_and_gives_back_leaves_the_child_able():
    run("""
        clock = goblin.ManualClock()
        store = goblin.Counters(clock=clock, max_keys=50, on_full="evict")
        limiter = goblin.RateLimiter("1000000000/hour", store=store, algorithm="gcra")
        decisions = [limiter.hit("ann") for _ in range(2000)]
        entries = [("waiting", ("gcra", 1, 1000, None))]
        def work(number):
            clock.advance_ns(1000)
            limiter.refund(decisions[clock.now_ns // 1000 % len(decisions)])
            stamps = store.decide(entries, 1, "reserve")[-1]
            if stamps is not None:
                store.unreserve(stamps)
            store.set(f"k{clock.now_ns}", 1, px=1)

        def child():
            clock.advance(1)
            assert all(limiter.refund(decision) in (True, False) for decision in decisions)
            store.unreserve(store.decide(entries, 1, "reserve")[-1])
            store._check()

        def forks():
            for fork in range(FORKS // 4):
                in_child(child)

        def forks_beside_threads():
            beside_threads(work, forks, 4)
            print("fine")  # here: an error would end this thread only

        forking = threading.Thread(target=forks_beside_threads)
        forking.start()
        forking.join()
    """)


@needs_fork
def test_fork_during_which_a_store_is_collected_does_not_hang():
    """A collection may come at any moment, so also while all locks are held for the fork."""
    run("""
        import gc
        class Cyclic(goblin.Counters):
            pass

        def litter():
            store = Cyclic()
            store.incr("k")
            store.itself = store

        # Registered before goblin's own, this would run while goblin holds its locks; registered after, it is run
        # after them in the child, as those of the threading and logging modules are. Both are tried.
        def collect():
            litter()
            gc.collect()
            goblin.Counters().incr("k")
            litter()

        os.register_at_fork(before=collect, after_in_parent=collect, after_in_child=collect)
        for fork in range(3):
            in_child(lambda: goblin.Counters().incr("k"))
        print("fine")
    """)
    early = """
        import gc, sys
        stores = []
        def litter():
            store = stores[0]()
            store.itself = store

        def collect():
            if stores:
                litter()
                gc.collect()
                litter()

        import os
        os.register_at_fork(before=collect, after_in_parent=collect, after_in_child=collect)
    """
    program = textwrap.dedent(early) + COMMON + textwrap.dedent("""
        class Cyclic(goblin.Counters):
            pass

        stores.append(Cyclic)
        for fork in range(3):
            in_child(lambda: goblin.Counters().incr("k"))
        print("fine")
    """)
    command = [sys.executable, "-c", program, str(FORKS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_SECONDS)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stdout + done.stderr


# ---- Subinterpreters ------------------------------------------------------------------------------------------------

INTERPRETERS = """
import warnings

# How to run code in a new interpreter has moved twice: _xxsubinterpreters, since 3.13 _interpreters, since 3.14 public.
def run_in_new_interpreter(code):
    try:
        from concurrent import interpreters
    except ImportError:
        try:
            import _interpreters as old
        except ImportError:
            import _xxsubinterpreters as old
        number = old.create()
        failure = old.run_string(number, code)  # 3.12 and before raise it
        old.destroy(number)
        assert failure is None, failure
    else:
        interpreter = interpreters.create()
        interpreter.exec(code)
        interpreter.close()
"""


def test_subinterpreter_imports_goblin_or_says_why_not_and_the_main_one_is_unharmed():
    program = INTERPRETERS + textwrap.dedent("""
        import os, tempfile
        import goblin

        CODE = '''
        try:
            import goblin
            said = "counted %%d" %% goblin.Counters().incr("k")
        except ImportError as error:
            said = "ImportError: %%s" %% error
        with open(%r, "w") as file:
            file.write(said)
        '''
        store = goblin.Counters()
        store.mset({"a": 1, "b": 2})
        limiter = goblin.RateLimiter("5/hour", store=store)
        folder = tempfile.mkdtemp()
        for turn in range(3):
            said = os.path.join(folder, str(turn))
            run_in_new_interpreter(CODE % said)
            with open(said) as file:
                text = file.read()
            os.remove(said)
            # Cython's words, and CPython's for a module that does not promise to keep apart what interpreters share.
            clear = ("counted 1", "Interpreter change detected", "does not support loading in subinterpreters")
            assert any(words in text for words in clear), text
            store._check()
            assert store.incr("a") == 2 + turn and limiter.hit("ann").remaining == 4 - turn
            assert goblin.Counters().incr("k") == 1
        os.rmdir(folder)
        print("fine:", text)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=GUARD_SECONDS)
    assert (done.returncode, done.stdout[:4]) == (0, "fine"), done.stdout + done.stderr


def test_subinterpreter_first_to_import_goblin_harms_nobody():
    """Then it is the main interpreter that is told, or both can."""
    program = INTERPRETERS + textwrap.dedent("""
        run_in_new_interpreter('''
        try:
            import goblin
            goblin.Counters().incr("k")
        except ImportError:
            pass
        ''')
        try:
            import goblin
        except ImportError as error:
            assert "Interpreter change detected" in str(error), error
        else:
            assert goblin.Counters().incr("k") == 1
        print("fine")
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=GUARD_SECONDS)
    assert (done.returncode, done.stdout[:4]) == (0, "fine"), done.stdout + done.stderr
