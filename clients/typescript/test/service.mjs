// Run against a real service: node service.mjs CLIENT_MODULE ADDRESS KEY; tests/clients/test_typescript.py starts both.
import assert from "node:assert/strict";
import { createServer } from "node:http";

const [, , module, address, key] = process.argv;
const { ApiError, Client, DeadlineExceeded, Unreachable, query } = await import(module);

const client = new Client(address, { key });
const answer = await client.recommend({ user_id: "u9", budget: 64, top_k: 3 });
assert.equal(answer.spent, 64);
assert.equal(answer.items.length, 3);
const exclude = answer.items.map((item) => item.item_id);
const other = await client.recommend({ user_id: "u9", budget: 64, top_k: 3, exclude });
assert.ok(other.items.every((item) => !exclude.includes(item.item_id)));
assert.equal((await client.recommend({ vector: Array(16).fill(1) })).user_id, null);
assert.equal((await client.recommend({ user_id: 'quote"and\\slash' })).user_id, 'quote"and\\slash');
assert.deepEqual(await client.scenarios(), { scenarios: [] });
const ruled = await client.recommend({ user_id: "u9", at_most: { category: 1 }, pin: [{ place: 2, item_id: "i40" }], offset: 0 });
assert.equal(ruled.items[1].item_id, "i40");
const boost = ["2: price in [1.5, 2.5]", "1.5: in_stock"];
const alike = await client.similar({ item_id: "i9", boost, at_most: ["category:1"], pin: ["1:i40"], diversity: 0.2 });
assert.deepEqual(Object.keys(alike.rules).sort(), ["at_most", "boost", "diversity", "pin"]);
assert.equal((await client.similar({ item_id: "comma,inside", top_k: 2, deadline_ms: 5000 })).item_id, "comma,inside");
const met = await client.recommend({ items: ["i9", { item_id: "i10", weight: 2 }], budget: 64, top_k: 3 });
assert.ok(met.items.every((item) => !["i9", "i10"].includes(item.item_id)));
const batch = await client.recommendBatch([{ user_id: "u9", budget: 8 }, { user_id: "u10", budget: 16 }]);
assert.deepEqual(batch.results.map((result) => result.spent), [8, 16]);
assert.equal((await client.budgets()).points[0].budget, 16);
assert.equal((await client.model()).n_dims, 16);
assert.equal((await client.items({ title: "title 1999" })).items[0].item_id, "i1999");
assert.equal((await client.users({ limit: 4 })).users.length, 4);
assert.deepEqual((await client.attributes({ name: "category", starts: "c3" })).attributes[0].some, ["c3"]);
assert.equal((await client.versions()).served, "v1");
await assert.rejects(client.recommend({ user_id: "u9", budget: 0 }), (error) => {
  assert.ok(error instanceof ApiError);
  assert.equal(error.code, "invalid_parameter");
  assert.ok(error.hint.includes("budget") && error.requestId);
  return true;
});
await assert.rejects(new Client(address).model(), { code: "missing_key" });
await assert.rejects(new Client("http://127.0.0.1:1", { retries: 1 }).model(), Unreachable);
await assert.rejects(client.recommend({ user_id: "u9" }, { signal: AbortSignal.abort(new Error("gone")) }), /gone/);
assert.equal(query({ a: ["x,y", "z"], b: true }), "?a=x%2Cy,z&b=true");

// A service that gives these replies, one after the other; null never answers.
async function replying(replies, use) {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request);
    const reply = replies.shift();
    if (reply === null) return;
    if (reply === "cut") return request.socket.destroy();
    response.writeHead(reply.status, { "content-type": "application/json", "retry-after": reply.after ?? "0" });
    response.end(JSON.stringify(reply.body ?? { error: { code: "overload", message: "No.", hint: "Later." } }));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${server.address().port}`, asked);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
const good = { status: 200, body: { spent: 1 } };

for (const first of [{ status: 503 }, { status: 429 }, { status: 502 }, "cut"]) {
  await replying([first, good], async (url, asked) => {
    assert.deepEqual(await new Client(url).recommend({ user_id: "1" }), { spent: 1 });
    assert.equal(asked.length, 2);
  });
}
await replying([{ status: 503 }, { status: 503 }, { status: 503 }, good], async (url, asked) => {
  await assert.rejects(new Client(url).model(), { code: "overload" });
  assert.equal(asked.length, 3);
});
await replying([{ status: 422 }, good], async (url, asked) => {
  await assert.rejects(new Client(url).model(), { status: 422 });
  assert.equal(asked.length, 1);
});
await replying([{ status: 503, after: "2" }, good], async (url, asked) => {
  await assert.rejects(new Client(url).recommend({ user_id: "1", deadline_ms: 1000 }), { code: "overload" });
  assert.equal(asked.length, 1);
});
await replying([{ status: 503 }, good], async (url, asked) => {
  await new Client(url, { priority: "batch", deadlineMs: 60_000 }).recommend({ user_id: "1" });
  const [first, second] = asked.map((request) => Number(request.headers["x-request-deadline-ms"]));
  assert.ok(second < first && first <= 48_000);
  assert.equal(asked[0].headers["x-priority"], "batch");
});
await replying([null], async (url) => {
  await assert.rejects(new Client(url).recommend({ user_id: "1", deadline_ms: 30 }), DeadlineExceeded);
});
await replying([null], async (url, asked) => {
  const leaving = new AbortController();
  const call = new Client(url).recommend({ user_id: "1" }, { signal: leaving.signal });
  while (asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  leaving.abort(new Error("nobody waits"));
  await assert.rejects(call, /nobody waits/);
});
console.log("all good");
