// The items at this budget beside the exact answer, with what differs marked.

import { byId, make } from "./elements.js";
import { likeThis } from "./subject.js";
import { count, plural } from "./words.js";

const ids = (answer) => answer.items.map((item) => item.item_id);

/** How many items of the exact answer were found. */
export function found(granted, exact) {
  const wanted = new Set(ids(exact));
  return ids(granted).filter((id) => wanted.has(id)).length;
}

/** Show both; `exact` may be null while it is not known. */
export function show(granted, exact) {
  const inExact = exact === null ? null : new Set(ids(exact));
  const inGranted = new Set(ids(granted));
  const searched = granted.fallback === null;
  byId("granted-title").textContent = searched ? "At this budget" : "Popular items";
  byId("columns").hidden = false;
  byId("exact-part").hidden = !searched;
  fill(byId("granted"), granted, (id) => (inExact === null || inExact.has(id) ? null : "extra"));
  if (exact !== null) {
    fill(byId("exact"), exact, (id) => (inGranted.has(id) ? null : "missed"));
    byId("exact-title").textContent = exact.complete ? "Exact answer" : `At ${count(exact.budget)}, the most it may spend`;
  }
  const text = exact === null ? "" : verdict(granted, exact);
  if (byId("verdict").textContent !== text) byId("verdict").textContent = text;
}

/** Show that there is nothing, and why. */
export function clear(why) {
  byId("granted").replaceChildren();
  byId("exact").replaceChildren();
  byId("columns").hidden = true;
  byId("verdict").textContent = why;
}

/** Say that what is shown answers a question from before. */
export function age() {
  byId("verdict").textContent = "From before: your question has no answer yet.";
}

function verdict(granted, exact) {
  if (granted.fallback !== null) return "Popular items, without a search.";
  const name = exact.complete ? "the exact answer" : "the largest budget";
  if (exact.items.length === 0) return "No item may come back.";
  if (ids(granted).join("\n") === ids(exact).join("\n")) return `The same as ${name}.`;
  const hits = found(granted, exact);
  if (hits === exact.items.length) return `The same items as ${name}, in another order.`;
  return `${count(hits)} of ${plural(exact.items.length, "item")} of ${name}.`;
}

function fill(list, answer, markOf) {
  // An element that stays the same stays in place: no flicker under the slider, and the focus is kept.
  const before = new Map([...list.children].map((child) => [child.dataset.is, child]));
  const rows = answer.items.map((item, at) => {
    const mark = markOf(item.item_id);
    const is = JSON.stringify([item, at, mark]);
    return before.get(is) ?? row(item, at, mark, is);
  });
  if (rows.length === list.children.length && rows.every((each, at) => each === list.children[at])) return;
  list.replaceChildren(...rows);
}

function row(item, at, mark, is) {
  const name = item.title ?? item.item_id;
  const shown = Object.entries(item.fields ?? {}).map(([field, value]) => `${field}: ${value === null ? "–" : [value].flat().join(", ")}`);
  const details = [item.title ? make("bdi", {}, item.item_id) : null, ...shown].filter(Boolean).flatMap((each, place) => (place === 0 ? [each] : [" · ", each]));
  const why = mark === "extra" ? make("span", { class: "unseen" }, " (not in the exact answer)") : null;
  return make(
    "li",
    { class: mark === null ? null : "differs", "data-is": is },
    make("span", { class: "rank", "aria-hidden": "true" }, String(at + 1)),
    make("span", { class: "name" }, make("strong", { dir: "auto", title: name }, name), details.length > 0 ? make("small", {}, ...details) : null, mark === null ? null : make("em", {}, mark, why)),
    make("span", { class: "score" }, item.score === null ? "" : item.score.toFixed(3)),
    make("button", { type: "button", class: "quiet like", "aria-label": `Similar to ${name}`, onclick: () => likeThis(item) }, "Similar"),
  );
}
