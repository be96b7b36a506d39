"""The way of the usual question is short: what a timing on a shared machine cannot say, a count of calls can."""

import asyncio

from loadtests.http.in_memory import HEADS, calls_of, connect, requests

# Of our own functions. Whoever adds one for every request should mean it.
MOST_CALLS = 36


def test_the_usual_question_takes_few_calls(model):
    async def count():
        worker, connection, transport = await connect(model.path)
        asked = requests(HEADS["nginx"])[5].replace(b"user_id=", b"user_id=u")
        connection.data_received(asked)
        calls = calls_of(connection.data_received, asked)
        await worker.stop()
        return calls, transport.written

    calls, written = asyncio.run(count())
    assert b'"items":[{' in written
    assert calls.total() <= MOST_CALLS, calls
