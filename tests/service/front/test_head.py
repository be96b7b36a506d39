"""The reader of plain heads accepts nothing that httptools would refuse, and reads the same in all it accepts."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadtests.chaos.reader import agrees, make_head
from service.front.head import read_head, read_plain

NAMES = [
    b"Host", b"host", b"X-Request-ID", b"x-request-id", b"X-PRIORITY", b"X-Request-Deadline-Ms", b"Authorization",
    b"X-API-Key", b"Origin", b"Connection", b"connection", b"Content-Length", b"Transfer-Encoding", b"Expect",
    b"Upgrade", b"HTTP2-Settings", b"Proxy-Connection", b"TE", b"Trailer", b"Accept", b"Cookie", b"X-Host", b"",
    b"Bad Name", b"X\tY", b"Keep-Alive", b"X-Forwarded-For",
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(
        [
            b"x",
            b"",
            b" ",
            b"keep-alive",
            b"Keep-Alive",
            b"close",
            b"5",
            b"0",
            b"chunked",
            b"100-continue",
            b"h2c",
            b"a, b",
            b"keep-alive, Upgrade",
            b"\t padded \t",
            b"websocket",
        ]
    ),
    st.binary(max_size=12),
)
LINES = st.tuples(st.sampled_from(NAMES), st.sampled_from([b": ", b":", b" : ", b":\t"]), VALUES).map(b"".join)
ENDS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\n ", b""])
TARGETS = st.one_of(
    st.sampled_from([b"/recommend?user_id=42&budget=64", b"/recommend?", b"/recommend", b"/recommend?a#b", b"*",
                     b"http://h/recommend?user_id=1", b"/recommend?x=%20", b'/recommend?"<>', b"/recommend?{}|^`"]),
    st.binary(max_size=12).map(lambda tail: b"/recommend?" + tail),
)  # fmt: skip
HEADS = st.builds(
    lambda method, target, version, lines, end: (
        method + b" " + target + b" " + version + b"\r\n" + b"".join(line + stop for line, stop in lines) + end
    ),
    st.sampled_from([b"GET", b"GET", b"GET", b"get", b"POST", b"HEAD", b"\r\nGET"]),
    TARGETS,
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"http/1.1"]),
    st.lists(st.tuples(LINES, ENDS), max_size=5),
    st.sampled_from([b"\r\n", b"\r\n", b"\n", b"", b"\r\n\r\n"]),
)


@settings(max_examples=3000, deadline=None)
@given(HEADS)
@example(b"GET /recommend?user_id=42 HTTP/1.1\r\nHost: x\r\nX-Request-ID: \t mine \t\r\n\r\n")
@example(b"GET /recommend?user_id=42#x HTTP/1.1\r\nHost: x\r\n\r\n")
@example(b"GET /recommend?a\x7f HTTP/1.1\r\nHost: x\r\n\r\n")
def test_what_is_plain_is_read_as_httptools_reads_it(head):
    agrees(head)


def test_heads_cut_joined_and_altered_at_random():
    rng = random.Random(1)
    assert sum(agrees(make_head(rng)) for _ in range(100_000)) > 1000


@settings(max_examples=2000, deadline=None)
@given(st.data())
def test_a_byte_more_or_less(data):
    head = bytearray(
        b"GET /recommend?user_id=42&budget=64 HTTP/1.1\r\nHost: x\r\nX-Request-ID: mine\r\n"
        b"Connection: keep-alive\r\n\r\n"
    )
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(head) - 1))
        how = data.draw(st.sampled_from(["change", "insert", "drop"]))
        byte = data.draw(st.integers(0, 255))
        if how == "change":
            head[position] = byte
        elif how == "insert":
            head.insert(position, byte)
        else:
            del head[position]
    agrees(bytes(head))


@pytest.mark.parametrize(
    "lines",
    [
        b"Host: x\r\n",
        b"host:x\r\n",
        b"Host: x\r\nUser-Agent: curl/8.0\r\nAccept: */*\r\nCookie: a=b; c=d\r\n",
        b"Host: x\r\nX-Request-ID: mine\r\nX-Forwarded-For: 10.0.0.1\r\n",
        b"Host: x\r\nConnection: keep-alive\r\n",
        b"X-Any: \xc3\xbc\xff\r\n",
    ],
)
def test_the_usual_heads_are_plain(lines):
    assert agrees(b"GET /recommend?user_id=42&budget=64 HTTP/1.1\r\n" + lines + b"\r\n")


@pytest.mark.parametrize(
    "line",
    [
        b"Connection: close", b"Content-Length: 0", b"Transfer-Encoding: chunked", b"Expect: 100-continue",
        b"Upgrade: h2c", b"Proxy-Connection: close", b"TE: trailers", b"HTTP2-Settings: AAMAAABk",
    ],
)  # fmt: skip
def test_headers_that_frame_a_request_make_it_not_plain(line):
    assert read_plain(b"GET /recommend?user_id=42 HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n\r\n") is None


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        (b"", 0),
        (b"Content-Length: 12\r\n", 12),
        (b"Transfer-Encoding: chunked\r\n", None),
        (b"Upgrade: h2c\r\nConnection: Upgrade\r\n", 0),
    ],
)
def test_any_other_head_says_how_long_the_request_is(lines, length):
    head = read_head(b"POST /recommend HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
    assert head.length == length
    assert head.method == b"POST"


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nNo Name\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_what_is_no_head(data):
    assert read_head(data) is None
