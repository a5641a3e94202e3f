"""``goblin/shell.py`` line by line: words, replies, every command, every error text, the table, the clock.

Replies and error texts are Redis 7.0's as its redis-cli prints them on a terminal, but for those that docs/shell.md lists.
"""

import re
from pathlib import Path

import pytest

import goblin
from goblin.shell import COMMANDS, Quit, Shell, format_reply, split_words, strip_prompt

INT64_MAX = 2**63 - 1

NOT_AN_INTEGER = "(error) ERR value is not an integer or out of range"
OVERFLOW = "(error) ERR increment or decrement would overflow"
SYNTAX = "(error) ERR syntax error"
NX_WITH_ANOTHER = "(error) ERR NX and XX, GT or LT options at the same time are not compatible"
GT_WITH_LT = "(error) ERR GT and LT options at the same time are not compatible"


def wrong_number(name):
    return f"(error) ERR wrong number of arguments for '{name}' command"


def invalid_time(name):
    return f"(error) ERR invalid expire time in '{name}' command"


@pytest.fixture
def ask():
    """Gives lines to one session on a manual clock; returns the last reply."""
    shell = Shell(goblin.ManualClock())

    def answer(*lines):
        replies = [shell.answer(line if isinstance(line, bytes) else line.encode()) for line in lines]
        return replies[-1].decode()

    return answer


# ---- Words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b" \t\r\n", []),
        (b"GET k", [b"GET", b"k"]),
        (b"\t GET\tk \r\n", [b"GET", b"k"]),
        (b"SET \"a b\" 'c d'", [b"SET", b"a b", b"c d"]),
        (b"''", [b""]),
        (b'""', [b""]),
        (rb'"\n\r\t\b\a"', [b"\n\r\t\b\a"]),
        (rb'"\x00\xfF\x4"', [b"\x00\xffx4"]),
        (rb'"\"\\\q"', [b'"\\q']),
        (rb"'\'\n\\x'", [rb"'\n\\x"]),
        (b'"it\'s"', [b"it's"]),
        (b"'say \"hi\"'", [b'say "hi"']),
        (b'a"b c"', [b"ab c"]),
        (rb"a\nb", [rb"a\nb"]),
        ("ключ".encode(), ["ключ".encode()]),
        (b"\xff\xfe", [b"\xff\xfe"]),
        (b"# GET k", []),
        (b"GET k # it's", [b"GET", b"k"]),
        (b"GET k#1", [b"GET", b"k#1"]),
        (b'GET "#1"', [b"GET", b"#1"]),
    ],
)
def test_split_words_line_gives_words_as_redis_cli(line, words):
    assert split_words(line) == words


@pytest.mark.parametrize(
    "line", [b'"', b"'", b'GET "k', b"GET 'k", b"GET it's", rb'"a\"', rb"'a\'", b'"a"b', b"'a'b", b"'a''b'"]
)
def test_split_words_unbalanced_quotes_raises_invalid_arguments(line):
    with pytest.raises(ValueError, match=r"^Invalid argument\(s\)$"):
        split_words(line)


@pytest.mark.parametrize("line", [b'GET "k', b"GET 'k'x"])
def test_shell_unbalanced_quotes_replies_invalid_arguments(ask, line):
    assert ask(line) == "Invalid argument(s)"


@pytest.mark.parametrize(
    "prompt", ["> ", "goblin> ", "127.0.0.1:6379> ", "localhost:6379[2]> ", "[::1]:6379> ", "  > "]
)
def test_strip_prompt_known_prompt_is_dropped(prompt):
    assert strip_prompt(f"{prompt}INCR k \r\n".encode()) == b"INCR k"


@pytest.mark.parametrize("line", ["INCR k>", "SET a:1> 2", "'a:1> ' b", "#a:1> b", "redis> INCR"])
def test_strip_prompt_other_line_is_kept(line):
    assert strip_prompt(line.encode()) == line.encode()


@pytest.mark.parametrize("line", ["", "  ", "# INCR k", "> # INCR k", ">", "goblin> "])
def test_shell_line_without_command_has_no_reply(ask, line):
    assert ask(line) == ""
    assert ask("DBSIZE") == "(integer) 0"


# ---- Replies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "printed"),
    [
        (None, b"(nil)"),
        ("OK", b"OK"),
        (-3, b"(integer) -3"),
        (b"11", b'"11"'),
        (b"", b'""'),
        (b"\x00\n\r\t\a\b\x7f\xff\"\\'~ ", rb'''"\x00\n\r\t\a\b\x7f\xff\"\\'~ "'''),
        ([], b"(empty array)"),
        ([b"a", None], b'1) "a"\n2) (nil)'),
    ],
)
def test_format_reply_prints_as_redis_cli(reply, printed):
    assert format_reply(reply) == printed


def test_format_reply_ten_items_aligns_numbers_right():
    lines = format_reply([b"x"] * 10).split(b"\n")
    assert lines[0] == b' 1) "x"' and lines[9] == b'10) "x"'


# ---- Every command --------------------------------------------------------------------------------------------------

SESSIONS = {
    "get": [("GET k", "(nil)"), ("SET k -5", "OK"), ("GET k", '"-5"')],
    "set_plain_drops_ttl": [
        ("SET k 1 EX 10", "OK"),
        ("TTL k", "(integer) 10"),
        ("SET k 2", "OK"),
        ("TTL k", "(integer) -1"),
    ],
    "set_px": [("SET k 1 px 1500", "OK"), ("PTTL k", "(integer) 1500")],
    "set_keepttl": [("SET k 1 EX 10", "OK"), ("SET k 2 KEEPTTL", "OK"), ("TTL k", "(integer) 10"), ("GET k", '"2"')],
    "set_nx": [("SET k 1 NX", "OK"), ("SET k 2 NX", "(nil)"), ("GET k", '"1"')],
    "set_xx": [("SET k 1 XX", "(nil)"), ("SET k 1", "OK"), ("SET k 2 XX", "OK"), ("GET k", '"2"')],
    "set_get": [
        ("SET k 1 GET", "(nil)"),
        ("SET k 2 get nx", '"1"'),
        ("SET k 3 GET XX EX 9", '"1"'),
        ("TTL k", "(integer) 9"),
    ],
    "set_repeated_option_last_wins": [("SET k 1 EX 10 EX 20 NX NX", "OK"), ("TTL k", "(integer) 20")],
    "getset": [
        ("GETSET k 1", "(nil)"),
        ("EXPIRE k 10", "(integer) 1"),
        ("GETSET k 2", '"1"'),
        ("TTL k", "(integer) -1"),
    ],
    "getdel": [("SET k 1", "OK"), ("GETDEL k", '"1"'), ("GETDEL k", "(nil)")],
    "getex": [
        ("GETEX k", "(nil)"),
        ("SET k 1", "OK"),
        ("GETEX k EX 10", '"1"'),
        ("TTL k", "(integer) 10"),
        ("GETEX k px 2500", '"1"'),
        ("PTTL k", "(integer) 2500"),
        ("GETEX k", '"1"'),
        ("PTTL k", "(integer) 2500"),
        ("GETEX k PERSIST", '"1"'),
        ("TTL k", "(integer) -1"),
    ],
    "mset_mget": [("MSET a 1 b 2 a 3", "OK"), ("MGET a b c", '1) "3"\n2) "2"\n3) (nil)')],
    "incr_family": [
        ("INCR k", "(integer) 1"),
        ("INCRBY k 10", "(integer) 11"),
        ("DECR k", "(integer) 10"),
        ("DECRBY k -2", "(integer) 12"),
        ("INCRBY zero 0", "(integer) 0"),
    ],
    "increx": [
        ("GOBLIN.INCREX k 60", "(integer) 1"),
        ("#@advance 2", ""),
        ("increx k 90", "(integer) 2"),
        ("TTL k", "(integer) 58"),
        ("#@advance 58", ""),
        ("INCREX k 90", "(integer) 1"),
        ("TTL k", "(integer) 90"),
    ],
    "pincrex": [("GOBLIN.PINCREX k 1500", "(integer) 1"), ("pincrex k 9", "(integer) 2"), ("PTTL k", "(integer) 1500")],
    "incrbound": [
        ("GOBLIN.INCRBOUND k 7 10", "(integer) 7"),
        ("incrbound k 4 10", "(integer) -1"),
        ("INCRBOUND k 3 10", "(integer) 10"),
        ("INCRBOUND k -5 10", "(integer) 5"),
        ("TTL k", "(integer) -1"),
    ],
    "incrbound_seconds_arms_unless_running": [
        ("INCRBOUND k 11 10 SECONDS 60", "(integer) -1"),
        ("INCRBOUND k 1 10 seconds 60", "(integer) 1"),
        ("INCRBOUND k 1 10 SECONDS 90", "(integer) 2"),
        ("TTL k", "(integer) 60"),
    ],
    "decrpos": [
        ("DECRPOS k", "(integer) -1"),
        ("SET k 1", "OK"),
        ("GOBLIN.DECRPOS k", "(integer) 0"),
        ("DECRPOS k", "(integer) -1"),
    ],
    "expire": [
        ("EXPIRE k 10", "(integer) 0"),
        ("INCR k", "(integer) 1"),
        ("EXPIRE k 10", "(integer) 1"),
        ("TTL k", "(integer) 10"),
    ],
    "expire_past_removes": [("INCR k", "(integer) 1"), ("EXPIRE k -1", "(integer) 1"), ("EXISTS k", "(integer) 0")],
    "expire_flags": [
        ("INCR k", "(integer) 1"),
        ("EXPIRE k 10 XX", "(integer) 0"),
        ("EXPIRE k 10 GT", "(integer) 0"),
        ("EXPIRE k 10 nx", "(integer) 1"),
        ("EXPIRE k 20 NX", "(integer) 0"),
        ("EXPIRE k 5 GT", "(integer) 0"),
        ("EXPIRE k 20 GT XX", "(integer) 1"),
        ("EXPIRE k 30 LT", "(integer) 0"),
        ("EXPIRE k 15 LT", "(integer) 1"),
        ("TTL k", "(integer) 15"),
    ],
    "pexpire": [("INCR k", "(integer) 1"), ("PEXPIRE k 1500 NX", "(integer) 1"), ("PTTL k", "(integer) 1500")],
    "ttl": [
        ("TTL k", "(integer) -2"),
        ("PTTL k", "(integer) -2"),
        ("INCR k", "(integer) 1"),
        ("PTTL k", "(integer) -1"),
    ],
    "persist": [
        ("PERSIST k", "(integer) 0"),
        ("INCREX k 9", "(integer) 1"),
        ("PERSIST k", "(integer) 1"),
        ("TTL k", "(integer) -1"),
    ],
    "del_exists": [
        ("MSET a 1 b 2", "OK"),
        ("EXISTS a a b c", "(integer) 3"),
        ("DEL a b c", "(integer) 2"),
        ("DBSIZE", "(integer) 0"),
    ],
    "keys": [
        ("KEYS *", "(empty array)"),
        ("MSET rate:b 1 rate:a 1 other 1", "OK"),
        ("KEYS rate:*", '1) "rate:a"\n2) "rate:b"'),
        ("KEYS rate:[^a]", '1) "rate:b"'),
    ],
    "flushall": [
        ("INCR k", "(integer) 1"),
        ("FLUSHALL", "OK"),
        ("DBSIZE", "(integer) 0"),
        ("flushall async", "OK"),
        ("FLUSHALL SYNC", "OK"),
    ],
    "keys_of_any_bytes": [
        (r'INCR "\xff\x00 "', "(integer) 1"),
        (b"INCR \xff", "(integer) 1"),
        ("INCR ä", "(integer) 1"),
        ('INCR ""', "(integer) 1"),
        ("KEYS *", '1) ""\n2) "\\xc3\\xa4"\n3) "\\xff"\n4) "\\xff\\x00 "'),
    ],
}


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS.keys())
def test_command_in_session_replies_as_redis(ask, session):
    for line, reply in session:
        assert ask(line) == reply, line


# ---- Every error ----------------------------------------------------------------------------------------------------


def test_shell_unknown_command_replies_its_name_as_typed(ask):
    assert ask("Nope a b") == "(error) ERR unknown command 'Nope'"
    assert ask('"" a') == "(error) ERR unknown command ''"
    assert ask(b'"\\x1b[2J\\n" a') == "(error) ERR unknown command ' [2J '"
    assert ask("é") == "(error) ERR unknown command 'é'"
    assert ask(b"\xff") == "(error) ERR unknown command '\\xff'"
    assert ask("x" * 500) == f"(error) ERR unknown command '{'x' * 128}'"


# A command's own name to the lowest and the highest number of words it takes after the name (None: no highest).
ARITIES = {
    "get": (1, 1), "set": (2, None), "getset": (2, 2), "getdel": (1, 1), "getex": (1, None), "mget": (1, None),
    "mset": (2, None), "incr": (1, 1), "incrby": (2, 2), "decr": (1, 1), "decrby": (2, 2), "goblin.increx": (2, 2),
    "increx": (2, 2), "goblin.pincrex": (2, 2), "pincrex": (2, 2), "goblin.incrbound": (3, None), "incrbound": (3, None),
    "goblin.decrpos": (1, 1), "decrpos": (1, 1), "expire": (2, None), "pexpire": (2, None), "ttl": (1, 1), "pttl": (1, 1),
    "persist": (1, 1), "del": (1, None), "exists": (1, None), "keys": (1, 1), "dbsize": (0, 0), "flushall": (0, None),
    "help": (0, None), "quit": (0, None), "exit": (0, None), "fixed.window": (3, None), "sliding.window": (3, None),
    "gcra": (3, None), "type": (1, 1),
}  # fmt: skip


def test_commands_table_names_are_those_of_the_arity_table():
    assert {name.lower() for command in COMMANDS for name in command.names} == ARITIES.keys()


@pytest.mark.parametrize("name", ARITIES)
def test_command_wrong_number_of_words_replies_the_error_first(ask, name):
    lowest, highest = ARITIES[name]
    wrong = [lowest - 1] if lowest else []
    wrong += [highest + 1] if highest is not None else []
    for number in wrong:
        assert ask(" ".join([name.upper()] + ["bad"] * number)) == wrong_number(name)


@pytest.mark.parametrize("line", ["MSET a 1 b", "MSET a bad b", "mset a 1 b 2 c"])
def test_mset_odd_words_replies_wrong_number(ask, line):
    assert ask(line) == wrong_number("mset")
    assert ask("DBSIZE") == "(integer) 0"


@pytest.mark.parametrize(
    "line",
    [
        "SET k bad FOO", "SET k bad EX", "SET k 1 NX XX", "SET k 1 EX bad PX 1", "SET k 1 EX 1 KEEPTTL", "SET k 1 PERSIST",
        "SET k 1 EXAT 9", "GETEX k EX", "GETEX k EX bad PERSIST", "GETEX k EX 1 PX 1", "GETEX k KEEPTTL", "GETEX k 9",
        "INCRBOUND k bad bad EX 9", "INCRBOUND k 1 1 SECONDS", "INCRBOUND k 1 1 9", "FLUSHALL NOW", "FLUSHALL SYNC SYNC",
    ],
)  # fmt: skip
def test_command_bad_option_replies_syntax_error_before_numbers(ask, line):
    assert ask("INCR k", line) == SYNTAX
    assert ask("GET k") == '"1"'


@pytest.mark.parametrize(
    "word", ["abc", '""', "+1", "01", "-0", "-", "1.0", '" 1"', '"1 "', "0x1", "1_0", "१", str(2**63), "9" * 5000]
)
@pytest.mark.parametrize(
    "line",
    [
        "SET k {}", "SET k 1 EX {}", "SET k 1 PX {}", "GETSET k {}", "GETEX k EX {}", "MSET k {}", "INCRBY k {}", "DECRBY k {}",
        "INCREX k {}", "PINCREX k {}", "INCRBOUND k {} 9", "INCRBOUND k 1 {}", "INCRBOUND k 1 9 SECONDS {}", "EXPIRE k {}",
        "PEXPIRE k {}",
    ],
)  # fmt: skip
def test_command_word_no_integer_replies_not_an_integer(ask, line, word):
    assert ask("INCR k", line.format(word)) == NOT_AN_INTEGER
    assert ask("GET k") == '"1"' and ask("TTL k") == "(integer) -1"


@pytest.mark.parametrize("value", ["0", "-1", str(-(2**63)), str(INT64_MAX)])
def test_set_canonical_int64_is_stored(ask, value):
    assert ask(f"SET k {value}", "GET k") == f'"{value}"'


@pytest.mark.parametrize(
    ("start", "line"),
    [
        (INT64_MAX, "INCR k"), (INT64_MAX, "INCRBY k 1"), (-(2**63), "DECR k"), (-(2**63), "DECRBY k 1"),
        (INT64_MAX, "INCREX k 60"), (INT64_MAX, "PINCREX k 60"), (-(2**63), "INCRBOUND k -1 0"),
    ],
)  # fmt: skip
def test_command_sum_out_of_range_replies_overflow(ask, start, line):
    assert ask(f"SET k {start}", line) == OVERFLOW
    assert ask("GET k") == f'"{start}"'


def test_decrby_smallest_integer_replies_decrement_would_overflow(ask):
    assert ask(f"DECRBY k {-(2**63)}") == "(error) ERR decrement would overflow"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("SET k 1 EX 0", "set"), ("SET k 1 PX -1", "set"), (f"SET k 1 EX {INT64_MAX}", "set"), ("GETEX k EX 0", "getex"),
        ("GETEX absent PX 0", "getex"), (f"GOBLIN.INCREX k {INT64_MAX}", "goblin.increx"), (f"INCREX k {INT64_MAX}", "increx"),
        (f"pincrex k {INT64_MAX}", "pincrex"), (f"INCRBOUND k 1 9 SECONDS {INT64_MAX}", "incrbound"),
        (f"EXPIRE k {INT64_MAX}", "expire"), (f"EXPIRE absent {-INT64_MAX}", "expire"), (f"PEXPIRE k {INT64_MAX}", "pexpire"),
    ],
)  # fmt: skip
def test_command_time_out_of_range_replies_invalid_expire_time(ask, line, name):
    assert ask("INCR k", line) == invalid_time(name)
    assert ask("GET k") == '"1"' and ask("TTL k") == "(integer) -1"


@pytest.mark.parametrize("name", ["EXPIRE", "PEXPIRE"])
@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("bad NX XX", NX_WITH_ANOTHER),
        ("9 nx GT", NX_WITH_ANOTHER),
        ("9 LT NX", NX_WITH_ANOTHER),
        ("9 GT LT NX", NX_WITH_ANOTHER),
        ("bad GT LT", GT_WITH_LT),
        ("9 XX LT GT", GT_WITH_LT),
        ("bad NX XX Foo Bar", "(error) ERR Unsupported option Foo"),
        ("bad NX", NOT_AN_INTEGER),
    ],
)
def test_expire_bad_flags_reply_their_error_before_numbers(ask, name, words, error):
    assert ask("INCR k", f"{name} k {words}") == error
    assert ask("TTL k") == "(integer) -1"


def test_command_key_too_long_replies_an_error(ask):
    assert ask("INCR " + "k" * 65_535) == "(integer) 1"
    assert re.match(r"\(error\) ERR .*65,?535", ask("INCR " + "k" * 65_536))


# ---- Help and the table ---------------------------------------------------------------------------------------------


def test_help_lists_every_command_on_a_line_of_a_terminal(ask):
    lines = ask("HELP").split("\n")
    assert [line.split()[0] for line in lines[:-1]] == [command.names[0] for command in COMMANDS]
    assert max(map(len, lines)) < 80


@pytest.mark.parametrize("name", ["GOBLIN.INCREX", "increx"])
def test_help_command_shows_usage_and_other_name(ask, name):
    usage, *explained = ask(f"help {name}").split("\n")
    assert usage == "GOBLIN.INCREX key seconds"
    assert explained[-1].endswith("Also written INCREX.")


def test_help_unknown_command_replies_error(ask):
    assert ask("HELP nope") == "(error) ERR unknown command 'nope'"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.names[0])
def test_shell_page_has_every_command_as_the_table(command):
    page = Path(__file__).resolve().parent.parent.joinpath("docs", "shell.md").read_text(encoding="utf-8")
    usage, summary = (text.replace("|", r"\|") for text in (command.usage, command.summary))
    assert f"| {usage} | {summary} |\n" in page.replace("`", "")  # the page sets code apart, the terminal cannot


@pytest.mark.parametrize("line", ["QUIT", "exit", "> quit now # bye"])
def test_quit_ends_the_session(ask, line):
    with pytest.raises(Quit):
        ask(line)


# ---- The clock ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["#@advance 1.5", "> #@advance 1.5  # a remark", "  #@advance\t1.5\r\n"])
def test_advance_manual_clock_moves_time(ask, line):
    assert ask("SET k 1 EX 10", line) == ""
    assert ask("PTTL k") == "(integer) 8500"


@pytest.mark.parametrize(
    "line", ["#@advance", "#@advance soon", "#@advance 1 2", "#@advance 1e3", "#@advance inf", "#@advance 1_0"]
)
def test_advance_no_number_replies_error(ask, line):
    assert ask(line) == "(error) ERR #@advance takes one number of seconds, such as 2 or 0.5"


@pytest.mark.parametrize("seconds", ["9" * 19, "-1", "9" * 19 + ".5"])
def test_advance_out_of_the_clocks_range_replies_error_and_moves_nothing(ask, seconds):
    assert ask("SET k 1 EX 10", f"#@advance {seconds}").startswith("(error) ERR ")
    assert ask("PTTL k") == "(integer) 10000"


@pytest.mark.parametrize("line", ["#@advanced 2", "#@ advance 2", "# @advance 2", "#@advance2"])
def test_advance_other_comment_stays_a_comment(ask, line):
    assert ask("SET k 1 EX 10", line) == ""
    assert ask("PTTL k") == "(integer) 10000"


def test_advance_without_manual_clock_is_a_comment():
    shell = Shell()
    assert shell.answer(b"SET k 1 EX 1000") == b"OK"
    assert shell.answer(b"#@advance 5000") == shell.answer(b"#@advance nonsense") == b""
    assert shell.answer(b"EXISTS k") == b"(integer) 1"


# ---- rate limits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "replies"),
    [
        (["FIXED.WINDOW f 2 60"] * 3, ["(integer) 1", "(integer) 0", "(integer) -60000000000"]),
        (["SLIDING.WINDOW s 1 60 COST 1", "sliding.window s 1 60"], ["(integer) 0", "(integer) -60000000000"]),
        (["GCRA g 60 60 BURST 2 COST 2", "GCRA g 60 60 BURST 2"], ["(integer) 0", "(integer) -1000000000"]),
        (["FIXED.WINDOW f 2 60 COST 3"], ["(integer) -9223372036854775808"]),
        (["GCRA g 1 0.25", "GCRA g 1 0.25"], ["(integer) 0", "(integer) -250000000"]),
        (["TYPE x", "INCR x", "TYPE x"], ["none", "(integer) 1", "counter"]),
        (["SLIDING.WINDOW s 1 60", "TYPE s", "GCRA g 1 60", "TYPE g"], ["(integer) 0", "sliding-window", "(integer) 0", "gcra"]),
        (
            ["GCRA g 1 60", "INCR g", "SLIDING.WINDOW g 1 60"],
            ["(integer) 0"] + ["(error) WRONGTYPE Operation against a key holding the wrong kind of value"] * 2,
        ),
        (["GCRA g 1"], ["(error) ERR wrong number of arguments for 'gcra' command"]),
        (["GCRA g 1 60 TWICE 2"], ["(error) ERR syntax error"]),
        (["FIXED.WINDOW f x 60", "FIXED.WINDOW f 1 1e3"], ["(error) ERR value is not an integer or out of range"] * 2),
        (["FIXED.WINDOW f -1 60"], ["(error) ERR limit=-1 (allowed: at least 0)"]),
        (["FIXED.WINDOW f 1 99999999999"], ["(error) ERR invalid expire time in 'fixed.window' command"]),
    ],
)
def test_rate_limit_commands_reply_verdicts(lines, replies):
    shell = Shell(clock=goblin.ManualClock())
    assert [shell.answer(line.encode()).decode() for line in lines] == replies
