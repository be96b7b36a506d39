// The receipt in words: what was granted, what was spent, and what follows.

import { byId, make } from "./elements.js";
import { count, duration, plural } from "./words.js";

const VECTORS = {
  fold_in: "The vector was made of the items as the training would have made it.",
  mean: "The vector is the mean of the items' vectors.",
  moved: "The user's vector was moved by the items.",
  stored: "The user's vector was used as it is: none of the items is known.",
  given: "The vector was used as it was given: none of the items is known.",
};
const FALLBACKS = {
  unknown_user: "The model does not know this user, so the popular items stand in.",
  no_vector: "This user has no vector in the model, so the popular items stand in.",
  deadline: "There was no time for a single product, so the popular items stand in.",
};
const LESS = {
  overload: "the service is busy and shares what it has",
  maximum: "no request may spend more here",
  deadline: "the deadline buys no more",
};
const SHORT = {
  budget: "Fewer items than asked came back: one product finds at most one item.",
  catalogue: "Fewer items than asked came back: there are no more.",
  rules: "Fewer items than asked came back: the rules allow no more.",
};
const LEFT_OUT = {
  unknown: "the model does not know it",
  filter: "the filter does not let it through",
  excluded: "it is excluded",
  at_most: "another rule leaves it out",
};

/** What each rule of a scenario did. */
function* ruled({ boost, at_most: caps, diversity, pin }) {
  if (boost) yield `${boost.items === 0 ? "No item" : plural(boost.items, "item")} here ${boost.items > 1 ? "have" : "has"} a boosted score.`;
  if (caps) {
    const filled = caps.filled > 0 ? `, and ${plural(caps.filled, "popular item")} ${caps.filled === 1 ? "stands" : "stand"} in` : "";
    if (caps.left_out === 0) yield `No candidate had to be passed over to keep the page mixed${filled}.`;
    else yield `To keep the page mixed, ${plural(caps.left_out, "candidate")} ${caps.left_out === 1 ? "was" : "were"} passed over${filled}.`;
  }
  if (diversity) yield `Diversity decided ${diversity.places === 0 ? "no place" : plural(diversity.places, "place")}, for ${plural(diversity.products, "product")} of items with one another.`;
  if (pin) {
    yield `${pin.placed === 0 ? "No pinned item" : plural(pin.placed, "pinned item")} ${pin.placed > 1 ? "are" : "is"} on the page.`;
    for (const each of pin.left_out) yield `${each.item_id} is pinned and not here: ${LEFT_OUT[each.because] ?? each.because}.`;
  }
}

/** The sentences of an answer. `items` is how many the model has, null where that is not known. */
export function sentences(answer, items) {
  if (answer.fallback !== null) return [FALLBACKS[answer.fallback] ?? `The popular items stand in: ${answer.fallback}.`];
  const said = [
    `It was allowed ${plural(answer.budget, "inner product")} and spent ${count(answer.spent)}, in ${duration(answer.search_us)} of searching.`,
  ];
  if (answer.degraded !== null) said.push(`It had asked for ${count(answer.degraded.from)}, but ${LESS[answer.degraded.reason] ?? answer.degraded.reason}.`);
  if (answer.eligible !== undefined && answer.eligible !== null) said.push(`${plural(answer.eligible, "item")} pass${answer.eligible === 1 ? "es" : ""} the filter.`);
  const all = answer.eligible ?? items;
  if (answer.complete) said.push("Every item that may come back was scored: the answer is exact.");
  else if (all !== null && all !== undefined) said.push(`Of ${plural(all, "item")} only the most promising were scored. More budget adds candidates and drops none.`);
  if (answer.vector) said.push(VECTORS[answer.vector] ?? "");
  if (answer.by) said.push(answer.by === "cosine" ? "Items are compared by cosine." : "Items are compared by inner product.");
  if (answer.unknown_items) said.push(`${plural(answer.unknown_items, "item")} of those given ${answer.unknown_items === 1 ? "is" : "are"} not in the model.`);
  if (answer.short) said.push(SHORT[answer.short] ?? "");
  if (answer.scenario) said.push(`The scenario ${answer.scenario} shaped the answer.`);
  if (answer.rules) said.push(...ruled(answer.rules));
  if (answer.experiment) said.push(`The experiment ${answer.experiment} sent this user to the model ${answer.arm}.`);
  return said.filter(Boolean);
}

/** Show the receipt. */
export function show(answer, items) {
  const lines = [
    ["granted", count(answer.budget)],
    ["spent", count(answer.spent)],
    answer.eligible === undefined || answer.eligible === null ? null : ["eligible", count(answer.eligible)],
    ["exact", answer.complete ? "yes" : "no"],
    ["search", duration(answer.search_us)],
    answer.arm ? ["model", answer.arm] : null,
    ["version", answer.model],
  ].filter(Boolean);
  byId("receipt").replaceChildren(
    make("dl", {}, lines.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
    ...sentences(answer, items).map((text) => make("p", {}, text)),
  );
}

/** Show that there is none. */
export const clear = () => byId("receipt").replaceChildren(make("p", { class: "hint" }, "Ask for somebody, and what it cost stands here."));
