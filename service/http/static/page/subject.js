// Who is asking: a user of the model, somebody new who has met some items, or the items themselves.

import { byId, choice, make } from "./elements.js";
import { change, question } from "./question.js";
import { ask } from "./service.js";
import { suggest } from "./suggestions.js";
import { count } from "./words.js";

const MOST_SUGGESTED = 12;
const HINTS = {
  user: "Somebody the model was trained on.",
  items: "Somebody the model does not know, by what they have met.",
  similar: "Items like one item, or like several together.",
};

const user = byId("user");
const search = byId("item-search");
const chosen = byId("chosen");
let users = [];
let canSearch = true;

const kind = choice("kind", (value) => {
  const somebody = value === "user" && question().user === "" && users.length > 0;
  change(somebody ? { kind: value, user: users[0] } : { kind: value });
});

/** Take the users to suggest, and whether items can be searched for. */
export function offer(sample, searchable) {
  users = sample?.users ?? [];
  canSearch = searchable;
  if (sample !== null) user.placeholder = users[0] ?? "";
  search.placeholder = searchable ? "Search by title" : "Id of an item";
  byId("user-field").dataset.of = sample === null ? "" : count(sample.n_users);
}

/** Show who is asked for. */
export function show() {
  const now = question();
  kind.value = now.kind;
  byId("kind-hint").textContent = HINTS[now.kind];
  byId("user-field").hidden = now.kind !== "user";
  byId("items-field").hidden = now.kind === "user";
  if (document.activeElement !== user) user.value = now.user;
  chosen.replaceChildren(...now.items.map(chip));
}

/** Find the titles of items that came without: those of an address. */
export async function findTitles() {
  const { items, arm } = question();
  if (!canSearch || items.every((item) => item.title !== null)) return;
  const named = items.slice(0, MOST_SUGGESTED).map(async (item) => {
    const [first] = item.title === null ? (await ask("items", { title: item.item_id, limit: 1, model: arm })).items : [item];
    return first?.item_id === item.item_id ? first : item;
  });
  const found = [...(await Promise.all(named)), ...items.slice(MOST_SUGGESTED)];
  // Somebody may have chosen others meanwhile.
  if (question().items === items) change({ items: found });
}

/** Ask for the items like one. */
export function likeThis(item) {
  change({ kind: "similar", items: [{ item_id: item.item_id, title: item.title ?? null }] });
}

function chip(item) {
  const name = item.title ?? item.item_id;
  return make("li", {}, make("span", { dir: "auto", title: name }, name), make("button", { type: "button", "aria-label": `Remove ${name}`, onclick: () => remove(item) }, "×"));
}

function remove(item) {
  change({ items: question().items.filter((each) => each.item_id !== item.item_id) });
  search.focus();
}

function add(item) {
  search.value = "";
  if (question().items.some((each) => each.item_id === item.item_id)) return;
  change({ items: [...question().items, item] });
}

suggest(user, {
  find: (text) =>
    users
      .filter((each) => each.toLowerCase().includes(text.trim().toLowerCase()) || text === question().user)
      .slice(0, MOST_SUGGESTED)
      .map((each) => ({ text: each, value: each })),
  choose: (option) => {
    user.value = option.value;
    change({ user: option.value });
  },
  enter: (text) => text && change({ user: text }),
});
user.addEventListener("blur", () => user.value.trim() && change({ user: user.value.trim() }));

async function findItems(text) {
  if (!canSearch) return [];
  const found = await ask("items", { title: text.trim(), limit: MOST_SUGGESTED, model: question().arm });
  return found.items.map((item) => ({ text: item.title ?? item.item_id, note: item.title ? item.item_id : "", value: item }));
}

suggest(search, {
  find: findItems,
  choose: (option) => add(option.value),
  enter: async (text) => {
    if (!text) return;
    const [first] = await findItems(text);
    add(first?.value ?? { item_id: text, title: null });
  },
});
