// The filter: conditions on attributes, completed while somebody types.

import { byId } from "./elements.js";
import { change, question } from "./question.js";
import { ask } from "./service.js";
import { suggest } from "./suggestions.js";
import { count } from "./words.js";

const OPERATORS = {
  text: ["=", "!=", "in [", "is missing"],
  list: ["contains", "contains any [", "contains all [", "is missing"],
  number: ["<", "<=", ">", ">=", "=", "is missing"],
  time: ["<", ">", "> now - 30d", "is missing"],
  flag: ["", "= false", "is missing"],
};
const TIMES = ["now - 7d", "now - 30d", "now - 365d"];
const NAME = /^[^\W\d]\w*$/u;
const WORDS = new Set(["and", "or", "not", "in", "is", "missing", "contains", "any", "all", "true", "false", "now"]);
const MOST_SUGGESTED = 12;

const input = byId("filter");
const hint = byId("filter-hint");
let attributes = [];

/** Take what items can be filtered by; without anything there is no filter. */
export function offer(listed) {
  attributes = listed ?? [];
  byId("filter-field").hidden = attributes.length === 0 && question().filter === "";
  // An example that says most: of the attributes with texts the one with the fewest, as a category has and a title has not.
  const [first] = attributes.filter((each) => each.type === "text" && each.some.length > 0).sort((a, b) => a.values - b.values);
  input.placeholder = first ? `${quoted(first.name)} = ${JSON.stringify(first.some[0])}` : "";
  show();
}

/** Show the filter of the question, and what is wrong with it, if anything is. */
export function show(problem = null) {
  if (document.activeElement !== input || problem === null) input.value = question().filter || input.value;
  if (question().filter === "" && document.activeElement !== input) input.value = "";
  hint.classList.toggle("wrong", problem !== null);
  input.setAttribute("aria-invalid", String(problem !== null));
  hint.textContent = problem ?? `Enter applies it. ${attributes.length === 0 ? "The items have no attributes here." : `There are ${attributes.map((each) => quoted(each.name)).join(", ")}.`}`;
}

/** The attributes that the filter names: worth showing with each item. */
export function fields() {
  const text = question().filter;
  return attributes.map((each) => each.name).filter((name) => new RegExp(`(^|[^\\w"'])${escaped(name)}($|[^\\w"'])`, "u").test(text));
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const quoted = (name) => (NAME.test(name) && !WORDS.has(name.toLowerCase()) ? name : `\`${name}\``);
const plain = (name) => name.replaceAll("`", "");
const named = (name) => attributes.find((each) => each.name === plain(name));

async function values(name, starts) {
  const attribute = named(name);
  if (attribute === undefined || !["text", "list"].includes(attribute.type)) return [];
  const some =
    starts === "" ? attribute.some : (await ask("attributes", { name: attribute.name, starts, limit: MOST_SUGGESTED, model: question().arm })).attributes[0].some;
  return some.slice(0, MOST_SUGGESTED).map((value) => ({ text: value, value: JSON.stringify(value) }));
}

/** What may stand at the end of a text, and how much of the end it takes the place of. */
async function complete(before) {
  const value = before.match(/(`[^`]+`|[^\W\d]\w*)\s*(?:=|!=|contains(?:\s+(?:any|all))?|in)\s*\[?(?:[^[\]"]|"[^"]*")*?("([^"]*))?$/iu);
  if (value !== null && value[2] !== undefined) return [await values(value[1], value[3]), value[2].length];
  if (value !== null && /(?:[=[,]|contains|any|all)\s*$/i.test(before)) return [await values(value[1], ""), 0];
  if (/@\w*$/u.test(before)) return [[], 0];
  const compared = before.match(/(`[^`]+`|[^\W\d]\w*)\s*(?:[<>]=?|!?=)\s*([\w-]*)$/iu);
  if (compared !== null) {
    const times = named(compared[1])?.type === "time" ? TIMES.filter((each) => each.startsWith(compared[2])) : [];
    return [times.map((each) => ({ text: each, value: `${each} ` })), compared[2].length];
  }
  const operator = before.match(/(?:^|[\s(])(`[^`]+`|[^\W\d]\w*)\s+([a-z!=<>]*)$/iu);
  if (operator !== null && named(operator[1]) !== undefined && !/[=<>]\s*$/.test(before)) {
    const fits = OPERATORS[named(operator[1]).type].filter((each) => each !== "" && each.startsWith(operator[2]));
    const joins = named(operator[1]).type === "flag" ? ["and", "or"].filter((each) => each.startsWith(operator[2])) : [];
    return [[...joins, ...fits].map((each) => ({ text: each, value: `${each} ` })), operator[2].length];
  }
  const [start] = before.match(/[\w]*$/u);
  const ahead = before.slice(0, before.length - start.length).trimEnd();
  if (ahead !== "" && !/(?:\b(?:and|or|not)|\()$/i.test(ahead)) {
    return [["and", "or"].filter((each) => each.startsWith(start)).map((each) => ({ text: each, value: `${each} ` })), start.length];
  }
  const fits = attributes.filter((each) => each.name.toLowerCase().startsWith(start.toLowerCase()));
  return [
    fits.map((each) => ({ text: each.name, note: `${each.type}, ${count(each.values)} values`, value: `${quoted(each.name)} ` })),
    start.length,
  ];
}

function apply(text) {
  change({ filter: text });
  if (text === "") show();
}

suggest(input, {
  find: async (text, caret) => {
    const [options, replaced] = await complete(text.slice(0, caret));
    return options.map((option) => ({ ...option, from: caret - replaced, to: caret }));
  },
  choose: ({ value, from, to }) => {
    input.setRangeText(value, from, to, "end");
    input.dispatchEvent(new Event("input"));
  },
  enter: apply,
});
input.addEventListener("change", () => apply(input.value.trim()));
