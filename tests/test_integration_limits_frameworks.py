"""The real Flask-Limiter and the real slowapi on goblin://: requests until 429, their headers, and the next window."""

import pytest

from integrations_installed import needs

needs("limits", "flask", "flask_limiter", "slowapi", "starlette", "httpx2")

import flask  # noqa: E402
import flask_limiter  # noqa: E402
import limits.storage  # noqa: E402
import slowapi  # noqa: E402
import slowapi.errors  # noqa: E402
import starlette.applications  # noqa: E402
import starlette.responses  # noqa: E402
import starlette.routing  # noqa: E402
import starlette.testclient  # noqa: E402

import goblin  # noqa: E402
import goblin.integrations.limits  # noqa: E402
from limits_storages import START  # noqa: E402

pytestmark = [
    # slowapi's own, on Python 3.14.
    pytest.mark.filterwarnings("ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning:slowapi"),
]

STRATEGIES = pytest.mark.parametrize("strategy", ["fixed-window", "sliding-window-counter"])


@pytest.fixture
def clock(monkeypatch):
    """The storage's clock, and the wall's for all who ask for it: frameworks, strategies, storage."""
    clock = goblin.ManualClock()
    monkeypatch.setattr("time.time", lambda: START + clock.now_ns / 10**9)
    return clock


def user_of(request):
    return request.headers["X-User"]


def flask_client(clock, strategy, uri="goblin://"):
    """(client, its limiter): /limited admits three a minute and user, /shared two in all, /free any."""
    app = flask.Flask(__name__)
    limiter = flask_limiter.Limiter(
        lambda: user_of(flask.request),
        app=app,
        storage_uri=uri,
        storage_options={"clock": clock},
        strategy=strategy,
        headers_enabled=True,
    )

    @app.get("/limited")
    @limiter.limit("3/minute")
    def limited():
        return "well"

    @app.get("/shared")
    @limiter.shared_limit("2/minute", scope="all", key_func=lambda: "all")
    def shared():
        return "well"

    @app.get("/free")
    @limiter.exempt
    def free():
        return "well"

    return app.test_client(), limiter


def slowapi_client(clock, strategy, uri="goblin://"):
    """The same by slowapi; an async endpoint among them."""
    limiter = slowapi.Limiter(
        user_of, storage_uri=uri, storage_options={"clock": clock}, strategy=strategy, headers_enabled=True
    )

    @limiter.limit("3/minute")
    async def limited(request):
        return starlette.responses.PlainTextResponse("well")

    @limiter.shared_limit("2/minute", scope="all", key_func=lambda: "all")
    def shared(request):
        return starlette.responses.PlainTextResponse("well")

    @limiter.exempt
    def free(request):
        return starlette.responses.PlainTextResponse("well")

    app = starlette.applications.Starlette(
        routes=[starlette.routing.Route(f"/{view.__name__}", view) for view in (limited, shared, free)],
        exception_handlers={slowapi.errors.RateLimitExceeded: slowapi._rate_limit_exceeded_handler},
    )
    app.state.limiter = limiter
    return starlette.testclient.TestClient(app), limiter


@pytest.fixture(params=[flask_client, slowapi_client], ids=["flask-limiter", "slowapi"])
def make_client(request):
    return request.param


def get(client, path="/limited", user="ann"):
    return client.get(path, headers={"X-User": user})


def codes(client, count, path="/limited", user="ann"):
    return [get(client, path, user).status_code for _ in range(count)]


def rate_headers(answer):
    return {name: answer.headers[f"X-RateLimit-{name}"] for name in ("Limit", "Remaining", "Reset")}


@STRATEGIES
def test_requests_are_answered_until_429_and_again_after_the_window(make_client, clock, strategy):
    client, limiter = make_client(clock, strategy)
    clock.advance(0.5)
    assert codes(client, 5) == [200] * 3 + [429] * 2
    assert codes(client, 4, user="bob") == [200] * 3 + [429]
    assert codes(client, 4, "/shared") == [200] * 2 + [429] * 2
    assert codes(client, 9, "/free") == [200] * 9
    clock.advance(59.9)
    assert codes(client, 1) == [429]
    clock.advance(0.1 if strategy == "fixed-window" else 60.1)  # sliding: the previous window has to pass as well
    assert codes(client, 4) == [200] * 3 + [429]


@STRATEGIES
def test_headers_say_what_remains_and_when_it_is_reset(make_client, clock, strategy):
    client, limiter = make_client(clock, strategy)
    remaining, resets = [], []
    for _ in range(4):
        answer = get(client)
        clock.advance(0.25)
        headers = rate_headers(answer)
        assert headers["Limit"] == "3"
        remaining.append(headers["Remaining"])
        resets.append(float(headers["Reset"]) - START)
        wait = int(answer.headers["Retry-After"])
    assert answer.status_code == 429 and remaining == ["2", "1", "0", "0"]
    assert all(59 <= reset <= 62 for reset in resets[1:])  # whole seconds there, one more on top here
    assert 58 <= wait <= 61
    clock.advance(wait + (0 if strategy == "fixed-window" else 60))
    assert get(client).status_code == 200


def test_sliding_window_lets_through_what_the_previous_one_leaves(make_client, clock):
    client, _ = make_client(clock, "sliding-window-counter")
    assert codes(client, 3) == [200] * 3
    clock.advance(75)  # three quarters of the three still count: 2.25
    assert codes(client, 2) == [200, 429]
    clock.advance(30)  # a quarter of them: 0.75, and the one
    assert codes(client, 3) == [200, 200, 429]


def test_moving_window_is_refused_when_the_limiter_is_made(make_client, clock):
    with pytest.raises(NotImplementedError, match="MovingWindowRateLimiting is not implemented for storage"):
        make_client(clock, "moving-window")


def test_framework_reset_gives_all_back(make_client, clock):
    client, limiter = make_client(clock, "fixed-window")
    assert codes(client, 4) == [200] * 3 + [429]
    limiter.reset()
    assert codes(client, 4) == [200] * 3 + [429]


def test_frameworks_under_one_name_share_one_store(clock):
    uri = "goblin://test-frameworks"
    first, _ = flask_client(clock, "fixed-window", uri)
    second, _ = flask_client(clock, "fixed-window", uri)
    third, _ = slowapi_client(clock, "fixed-window", uri)
    assert codes(first, 2) + codes(second, 2) == [200, 200, 200, 429]
    assert codes(third, 4) == [200] * 3 + [429]  # the limits' names differ, the store is the same
    counters = limits.storage.storage_from_string(uri, clock=clock).counters
    assert sorted(count for _, count in counters.items()) == [4, 4]


def test_full_store_that_raises_is_flask_limiters_to_handle(clock):
    """With `swallow_errors` a request passes; without, it is an error of the server: never a wrong verdict."""
    for swallow in (True, False):
        app = flask.Flask(__name__)
        limiter = flask_limiter.Limiter(
            lambda: user_of(flask.request), app=app, swallow_errors=swallow, default_limits=["1/minute"],
            storage_uri="goblin://?max_keys=1&on_full=raise", storage_options={"clock": clock},
        )  # fmt: skip
        assert limiter.enabled
        app.get("/limited")(lambda: "well")
        client = app.test_client()
        assert codes(client, 1, user="ann") == [200]
        assert codes(client, 2, user="bob") == ([200, 200] if swallow else [500, 500])
        assert codes(client, 1, user="ann") == [429]
