// What is asked: who, for how much, under which conditions. Kept in the address, so that it can be sent to somebody.

// Without a budget the service decides, and its decision is where the slider begins.
const DEFAULTS = { kind: "user", user: "", items: [], filter: "", scenario: "", arm: "", topK: 10, budget: null };
// Another of these is another question: the browser's back button returns to the one before.
const ANOTHER = ["kind", "user", "items", "filter", "scenario", "arm"];
// After so long without a change the address is written.
const SETTLED_MS = 250;

const state = { ...DEFAULTS };
const listeners = [];
let settling = null;
let isAnother = false;

/** The question as it is now; change it with `change`. */
export const question = () => state;

/** Call back after each change with the names of what changed. */
export const onChange = (listener) => listeners.push(listener);

/** Change some of it. */
export function change(some) {
  const changed = Object.keys(some).filter((name) => JSON.stringify(some[name]) !== JSON.stringify(state[name]));
  if (changed.length === 0) return;
  // Somebody that the page chose by itself, or half a question, is nothing to return to.
  isAnother ||= isComplete() && changed.some((name) => ANOTHER.includes(name));
  Object.assign(state, some);
  clearTimeout(settling);
  settling = setTimeout(writeAddress, SETTLED_MS);
  for (const listener of listeners) listener(changed);
}

/** Take the budget that the service gave to a question without one. */
export function adopt(budget) {
  state.budget ??= budget;
}

/** Whether there is anybody to ask for. */
export const isComplete = () => (state.kind === "user" ? state.user !== "" : state.items.length > 0);

/** The call that the question is: its path and its parameters, for this budget. */
export function call(budget = state.budget, fields = []) {
  const ids = state.items.map((item) => item.item_id);
  const subject = {
    user: () => ({ user_id: state.user }),
    items: () => ({ items: ids }),
    similar: () => (ids.length === 1 ? { item_id: ids[0] } : { items: ids }),
  }[state.kind]();
  const { filter, scenario } = state;
  const values = { ...subject, budget, top_k: state.topK, filter, scenario, fields, model: state.arm };
  return { path: state.kind === "similar" ? "similar" : "recommend", values };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody typed it
  }
}

/** A whole number from 1 on that a text names, or null. */
const counted = (text) => (Number(text) >= 1 ? Math.floor(Number(text)) : null);

/** Read the address, as `writeAddress` leaves it; what makes no sense in it is left out. */
export function readAddress() {
  clearTimeout(settling);
  isAnother = false;
  const found = new URLSearchParams(location.hash.slice(1));
  const ids = found.get("items")?.split(",").filter(Boolean).map(decoded) ?? [];
  const kind = found.get("kind") ?? (ids.length > 0 ? "items" : "user");
  Object.assign(state, DEFAULTS, {
    kind: ["user", "items", "similar"].includes(kind) ? kind : "user",
    user: found.get("user_id") ?? "",
    items: ids.slice(0, 100).map((item_id) => ({ item_id, title: null })),
    filter: found.get("filter") ?? "",
    scenario: found.get("scenario") ?? "",
    arm: found.get("model") ?? "",
    topK: Math.min(50, counted(found.get("top_k")) ?? DEFAULTS.topK),
    budget: counted(found.get("budget")) ?? DEFAULTS.budget,
  });
}

function writeAddress() {
  const { kind, user, items, filter, scenario, arm, topK, budget } = state;
  const values = kind === "user" ? { user_id: user } : { kind, items: items.map((each) => encodeURIComponent(each.item_id)).join(",") };
  Object.assign(values, { budget, top_k: topK === DEFAULTS.topK ? "" : topK, filter, scenario, model: arm });
  const written = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null));
  const address = `#${written}`;
  if (isAnother && address !== location.hash) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  isAnother = false;
}
