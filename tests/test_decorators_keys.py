"""Whose budget a call spends: templates, key callables, the function's own name, shared names and limiters."""

import functools
import inspect
import os
import subprocess
import sys
import textwrap
import types

import pytest

import goblin


@pytest.fixture
def store():
    return goblin.Counters(clock=goblin.ManualClock())


@pytest.fixture
def limit(store):
    return functools.partial(goblin.rate_limit, store=store)


def refused(call):
    try:
        call()
    except goblin.RateLimitExceeded:
        return True
    return False


def key_of(limited, *args, **kwargs):
    return limited.peek(*args, **kwargs).key


# ---- Templates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "fields"),
    [
        ("{user}", ("ann",)),
        ("user:{user}", ("ann",)),
        ("{user}:{n}", ("ann", "7")),
        ("{user}{user}", ("ann", "ann")),
        ("{n:04d}|{n!r:>3}|{user!r}", ("0007", "  7", "'ann'")),
        ("{n:{width}}", ("    7",)),
        ("{request.ip}", ("::1",)),
        ("{request.headers[X-Id]}", ("x9",)),
        ("{user[0]}", ("a",)),
        ("{{literal}} {user}", ("ann",)),
        ("{extra}", ("('e1', 'e2')",)),
        ("{extra[1]}-{options[tag]}", ("e2", "t")),
        ("{keyword}", ("k",)),
        ("no field", ()),
        ("", ()),
    ],
)
def test_template_key_is_the_tuple_of_it_and_its_fields(limit, template, fields):
    request = types.SimpleNamespace(ip="::1", headers={"X-Id": "x9"})

    @limit("5/minute", key=template)
    def f(user, request, n=7, width=5, *extra, keyword="k", **options):
        pass

    assert key_of(f, "ann", request, 7, 5, "e1", "e2", tag="t") == (template, *fields)


def test_template_sees_positional_keyword_and_default_alike(limit):
    @limit("3/minute", key="{user}/{greeting}")
    def f(user, greeting="hi"):
        pass

    f("ann"), f(user="ann"), f("ann", greeting="hi")
    assert refused(lambda: f("ann", "hi")) and not refused(lambda: f("ann", "ho"))


def test_template_of_a_positional_only_parameter_ignores_a_keyword_of_its_name(limit):
    @limit("5/minute", key="{user}")
    def f(user="default", /, **others):
        pass

    assert [key_of(f, "ann")[1], key_of(f, user="bob")[1]] == ["ann", "default"]


def test_template_of_a_partial_sees_what_is_left_to_give(limit):
    def f(a, user, n=1):
        pass

    assert key_of(limit("5/minute", key="{user}:{n}")(functools.partial(f, 0, n=2)), "ann")[1:] == ("ann", "2")
    with pytest.raises(ValueError, match=r"no parameter a \(it has: user, n\)"):
        limit("5/minute", key="{a}")(functools.partial(f, 0))


def test_template_fields_cannot_glue(limit):
    @limit("1/minute", key="{a}:{b}")
    def f(a, b):
        pass

    assert not refused(lambda: f("x:y", "z"))
    assert not refused(lambda: f("x", "y:z"))
    assert refused(lambda: f("x", "y:z"))


def test_template_missing_argument_raises_and_spends_nothing(limit, store):
    @limit("5/minute", key="{user}")
    def f(user):
        pass

    with pytest.raises(TypeError, match="missing a required argument: 'user'"):
        f()
    with pytest.raises(TypeError, match="missing a required argument: 'user'"):
        f.peek()
    assert len(store) == 0


@pytest.mark.parametrize(
    ("template", "error"), [("{user.ip}", AttributeError), ("{user[0]}", IndexError), ("{user:d}", ValueError)]
)
def test_template_that_a_value_does_not_fit_raises_and_spends_nothing(limit, store, template, error):
    @limit("5/minute", key=template)
    def f(user):
        raise AssertionError("not called")

    with pytest.raises(error):
        f("")
    assert len(store) == 0


def test_template_field_that_formats_to_a_str_subclass_is_the_same_key(limit):
    class Text(str):
        def __format__(self, spec):
            return Text(self)

    @limit("1/minute", key="{user}")
    def f(user):
        pass

    f("ann")
    assert refused(lambda: f(Text("ann")))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{nobody}", r"key='\{nobody\}': \S+f has no parameter nobody \(it has: user, n\)"),
        ("{nobody.ip}", "has no parameter nobody"),
        ("{user:{nobody}}", "has no parameter nobody"),
        ("{}", r"\{\} is no field \(allowed: a parameter's name"),
        ("{0}", r"\{0\} is no field"),
        ("{.ip}", r"\{\.ip\} is no field"),
        ("{user }", r"\{user \} is no field"),
        ("{user!x}", "unknown conversion !x"),
        ("{user", "is not a template: expected '}' before end of string"),
        ("user}", "is not a template: Single '}' encountered"),
        ("{user!}", "is not a template"),
    ],
)
@pytest.mark.parametrize("decorate", ["rate_limit", "quota"])
def test_template_that_cannot_be_filled_raises_at_decoration(template, message, decorate):
    with pytest.raises(ValueError, match=message):

        @(goblin.rate_limit("5/minute", key=template) if decorate == "rate_limit" else goblin.quota(5, key=template))
        def f(user, n=1):
            pass


def test_template_for_a_function_without_a_signature_raises_at_decoration(limit):
    class Unknowable:
        __signature__ = "none"

        def __call__(self, user):
            return user

    with pytest.raises(TypeError, match="has no signature to take fields from"):
        limit("5/minute", key="{user}")(Unknowable())
    assert limit("5/minute", key="all")(Unknowable())(1) == 1


def test_template_looks_only_at_the_parameters_that_it_names(limit):
    class Shy:
        def __repr__(self):
            raise AssertionError("formatted")

        __str__ = __format__ = __repr__

    @limit("5/minute", key="{user}")
    def f(user, secret):
        return "done"

    assert f("ann", Shy()) == "done"


# ---- Callables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["ann", b"ann", 7, -(2**70), ("ann", b"x", 7), ("ann",)])
def test_key_callable_of_each_type_is_the_key(limit, key):
    @limit("1/minute", key=lambda: key)
    def f():
        pass

    assert [refused(f), refused(f)] == [False, True]
    assert key_of(f) == key and f.reset() and not refused(f)


@pytest.mark.parametrize("key", [None, 1.5, True, ["ann"], ("ann", None), (("ann",),)])
def test_key_callable_that_returns_no_key_raises_and_spends_nothing(limit, store, key):
    @limit("1/minute", key=lambda: key)
    def f():
        raise AssertionError("not called")

    with pytest.raises(TypeError, match="key"):
        f()
    assert len(store) == 0


def test_key_callable_gets_the_calls_own_arguments(limit):
    seen = []

    def key(*args, **kwargs):
        seen.append((args, kwargs))
        return "k"

    @limit("9/minute", key=key)
    def f(a, b=2, *, c=3):
        pass

    f(1), f(1, b=5), f(1, 5, c=6), f.peek(a=1), f.reset(1, c=2)
    assert seen == [((1,), {}), ((1,), {"b": 5}), ((1, 5), {"c": 6}), ((), {"a": 1}), ((1,), {"c": 2})]


# ---- A function's own budget ----------------------------------------------------------------------------------------


def test_name_is_module_qualified_name_and_first_line(limit):
    line = inspect.currentframe().f_lineno + 2

    @limit("5/minute")
    def f():
        pass

    assert f.limiter.name == f"{__name__}.test_name_is_module_qualified_name_and_first_line.<locals>.f:{line}"


def test_name_of_lambdas_partials_methods_and_instances_is_their_codes(limit):
    def f():
        pass

    class Service:
        def method(self):
            pass

        def __call__(self):
            pass

    bare = limit("5/minute")(f).limiter.name
    assert limit("5/minute")(functools.partial(functools.partial(f))).limiter.name == bare
    assert "<lambda>" in limit("5/minute")(lambda: None).limiter.name
    assert limit("5/minute")(Service().method).limiter.name == limit("5/minute")(Service.method).limiter.name
    assert ".Service.__call__:" in limit("5/minute")(Service()).limiter.name
    assert limit("5/minute")(len).limiter.name == "builtins.len:0"
    assert limit("5/minute")(str.upper).limiter.name == "builtins.str.upper:0"


def test_name_of_a_function_under_another_decorator_is_its_own(limit):
    def other(function):
        @functools.wraps(function)
        def wrapper():
            return function()

        return wrapper

    names = []
    for _ in range(2):

        @limit("5/minute")
        @other
        def f():
            pass

        names.append(f.limiter.name)

    @limit("5/minute")
    @other
    def f():
        pass

    assert names[0] == names[1] != f.limiter.name


def test_name_with_braces_is_written_without(limit):
    def f():
        pass

    f.__qualname__ = "f{x}"
    assert ".f(x):" in limit("5/minute")(f).limiter.name.replace(__name__, "")


def test_budget_of_two_functions_is_apart_whatever_the_key(limit):
    def make(key):
        @limit("1/minute", key=key)
        def f(user):
            pass

        @limit("1/minute", key=key)
        def g(user):
            pass

        return f, g

    for key in (None, "{user}", lambda user: user):
        f, g = make(key)
        f.reset("ann"), g.reset("ann")
        assert [refused(lambda h=h: h("ann")) for h in (f, g, f, g)] == [False, False, True, True]


def test_budget_of_closures_of_one_code_is_one(limit):
    def make(n):
        @limit("1/minute")
        def f():
            return n

        return f

    first, second = make(1), make(2)
    assert not refused(first) and refused(second)


def test_budget_of_decorators_stacked_on_one_function_is_apart(limit):
    @limit("2/minute", key=lambda user, ip: user)
    @limit("2/minute", key=lambda user, ip: ip)
    def f(user, ip):
        pass

    f("ann", "bob")  # one key for both, and yet two entries
    assert [f.peek("ann", "").remaining, f.__wrapped__.peek("", "bob").remaining] == [1, 1]
    assert f.limiter.name == f.__wrapped__.limiter.name + "#2"


def test_budget_of_a_decorator_over_a_partial_of_a_decorated_function_is_apart(limit):
    @limit("2/minute")
    def f(n):
        pass

    outer = limit("2/minute")(functools.partial(f, 1))
    assert [outer(), outer()] == [None, None] and refused(outer)


def test_budget_is_called_the_same_in_every_process(tmp_path):
    (tmp_path / "service.py").write_text(
        textwrap.dedent("""
        import goblin
        class Service:
            @goblin.rate_limit("5/minute")
            def fetch(self): ...
        """)
    )
    command = [sys.executable, "-c", "import service; print(service.Service.fetch.limiter.name)"]
    names = {
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
                       env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed}).stdout
        for seed in "12"
    }  # fmt: skip
    assert names == {"service.Service.fetch:4\n"}


def test_budget_entries_are_readable_in_the_store(limit, store):
    @limit("5/minute", key="{user}", name="api")
    def f(user):
        pass

    f("ann")
    assert list(store.items()) == [("api:fixed:5/60s:{('{user}', 'ann')}", 1)]


# ---- Shared budgets -------------------------------------------------------------------------------------------------


def test_shared_name_with_equal_limits_is_one_budget(limit):
    @limit("1/minute", name="api", key="{user}")
    def f(user):
        pass

    @limit("1/minute", name="api", key="{user}")
    def g(n, user):
        pass

    f("ann")
    assert refused(lambda: g(1, "ann")) and not refused(lambda: g(1, "bob"))


def test_shared_limiter_is_one_budget_and_one_object(store):
    limiter = goblin.RateLimiter("2/minute", store=store, name="api", algorithm="gcra")

    @goblin.rate_limit(limiter, key="{user}")
    def f(user):
        pass

    @goblin.rate_limit(limiter, key=lambda who: ("{user}", who))
    async def g(who):
        pass

    f("ann")
    assert limiter.hit(("{user}", "ann"))
    assert g.peek("ann").remaining == 0 and f.limiter is limiter and g.limiter is limiter


def test_shared_decorator_object_gives_each_function_its_own_budget(limit):
    limited = limit("1/minute")

    @limited
    def f():
        pass

    @limited
    def g():
        pass

    assert [refused(h) for h in (f, g, f, g)] == [False, False, True, True]


def test_default_store_is_looked_up_at_every_call():
    @goblin.rate_limit("1/minute")
    def f():
        pass

    before = goblin.set_default_store(goblin.Counters())
    try:
        assert [refused(f), refused(f)] == [False, True]
        goblin.set_default_store(goblin.Counters())
        assert [refused(f), refused(f)] == [False, True]
    finally:
        goblin.set_default_store(before)
