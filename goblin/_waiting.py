"""Waiting for a hit to pass: what is asked of the store, and when to sleep, for threads and coroutines alike.

The two forms of waiting are generators: they yield what is to be done next, are sent the answer, and return what the
store's `decide` returned last. Who drives one asks the store, sleeps, and if that is broken off gives the reservation
up. So what differs between the sync form and the async ones is only the driver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from goblin import errors

Entries = list[tuple[bytes, tuple[str, int, int | None, int | None]]]
Outcome = tuple[int, int, int, int, int, Any]

_LONGEST_SLEEP_NS = 86_400 * 10**9  # time.sleep() refuses what a timestamp cannot hold; waiting goes on after it


class Step:
    """A verb of the store with its arguments; without a verb, a sleep of `wait_ns`. `stamps`: what is reserved."""

    __slots__ = ("arguments", "options", "stamps", "verb", "wait_ns")

    def __init__(self, verb: str, *arguments: Any, wait_ns: int = 0, stamps: Any = None, **options: Any) -> None:
        self.verb, self.arguments, self.options = verb, arguments, options
        self.wait_ns, self.stamps = wait_ns, stamps


Steps = Generator[Step, Any, Outcome]


def waiting(algorithm: str, entries: Entries, cost: int, timeout_ns: int | None) -> Steps:
    return (reserved if algorithm == "gcra" else retried)(entries, cost, timeout_ns)


def retried(entries: Entries, cost: int, timeout_ns: int | None) -> Steps:
    """fixed-window, sliding-window: sleep what the refusal said, and hit again."""
    end_ns = None
    if timeout_ns is not None:
        now_ns: int = yield Step("now_ns")
        end_ns = now_ns + timeout_ns
    while True:
        outcome: Outcome = yield Step("decide", entries, cost, "hit")
        verdict, at_ns = outcome[0], outcome[4]
        if verdict >= 0 or verdict == errors.INT64_MIN or (end_ns is not None and at_ns - verdict > end_ns):
            return outcome
        yield Step("", wait_ns=min(-verdict, _LONGEST_SLEEP_NS))


def reserved(entries: Entries, cost: int, timeout_ns: int | None) -> Steps:
    """gcra: take a time, and sleep until it has come."""
    outcome: Outcome = yield Step("decide", entries, cost, "reserve", max_wait_ns=timeout_ns)
    at_ns, stamps = outcome[4], outcome[5]
    if stamps is not None:
        now_ns: int = yield Step("now_ns", stamps=stamps)
        while now_ns < at_ns:
            yield Step("", wait_ns=min(at_ns - now_ns, _LONGEST_SLEEP_NS), stamps=stamps)
            now_ns = yield Step("now_ns", stamps=stamps)
    return outcome


def drive(store: Any, steps: Steps, sleep: Callable[[int], object]) -> Outcome:
    """For threads. `sleep` takes nanoseconds."""
    answer = None
    while isinstance(step := _next(steps, answer), Step):
        try:
            if step.verb:
                answer = getattr(store, step.verb)(*step.arguments, **step.options)
            else:
                sleep(step.wait_ns)
        except BaseException:
            if step.stamps is not None:
                _unless_gone(store.unreserve, step.stamps)
            raise
    return step


async def drive_async(store: Any, steps: Steps, sleep: Callable[[int], Awaitable[object]], is_async: bool) -> Outcome:
    """For coroutines, on a store of either form."""
    answer, requests = None, _cancel_requests() if is_async else 0
    while isinstance(step := _next(steps, answer), Step):
        try:
            if is_async and _cancel_requests() > requests:
                # The client has lost it: until Python 3.12 asyncio.wait_for() does, where a reply comes at that moment.
                from asyncio import CancelledError

                raise CancelledError
            if step.verb:
                answer = getattr(store, step.verb)(*step.arguments, **step.options)
                if is_async:
                    answer = await answer
            else:
                await sleep(step.wait_ns)
        except BaseException:
            if step.stamps is not None:
                given_up = _unless_gone(store.unreserve, step.stamps)
                if is_async:
                    try:
                        await given_up
                    except errors.StoreError:
                        pass  # as in _unless_gone
            raise
    return step


def _cancel_requests() -> int:
    """How often the running task has been asked to end; 0 where nobody can tell, on Python 3.10."""
    from asyncio import current_task

    return getattr(current_task(), "cancelling", int)()


def _unless_gone(unreserve: Callable[[Any], Any], stamps: Any) -> Any:
    """What broke the wait off is what the caller must see: not that the store cannot be told of it."""
    try:
        return unreserve(stamps)
    except errors.StoreError:
        return None


def _next(steps: Steps, answer: Any) -> Step | Outcome:
    """The next step, or the outcome. (A StopIteration out of a caller's own sleep must not be taken for the end.)"""
    try:
        return steps.send(answer)
    except StopIteration as done:
        outcome: Outcome = done.value
        return outcome
