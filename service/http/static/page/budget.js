// The budget: a slider on a logarithmic scale from 1 to the most that can be spent, and the same as a number.

import { byId, make } from "./elements.js";
import { change, question } from "./question.js";
import { count, plural } from "./words.js";

const STEPS = 1000;
// Two numbers under the slider need so much room, in pixels.
const ROOM = 46;

const slider = byId("budget");
const number = byId("budget-number");
slider.max = STEPS;

let most = 65536;
// Between these two no budget can be spent: beyond the index's lists, and short of all items.
let gap = [Infinity, Infinity];

const positionOf = (budget) => Math.round((STEPS * Math.log(budget)) / Math.log(Math.max(2, most)));

function budgetAt(position) {
  const budget = Math.round(Math.exp((position / STEPS) * Math.log(Math.max(2, most))));
  return spendable(Math.min(most, Math.max(1, budget)));
}

function spendable(budget) {
  const [low, high] = gap;
  if (budget <= low || budget >= high) return budget;
  return budget / low < high / budget ? low : high;
}

/** The largest budget of the slider. */
export const largest = () => most;

/** Set what can be spent: up to `top`, and nothing between `indexed` and all of `items`. */
export function limit(top, indexed = Infinity, items = Infinity) {
  most = Math.max(1, top);
  gap = [indexed, items];
  number.max = most;
  byId("budget-of").textContent = `of ${plural(most, "inner product")}`;
  byId("ticks").replaceChildren(...marks().map((each) => tick(each)));
  // A budget from the address may be more than there is to spend it on.
  if (question().budget > most) change({ budget: most });
  show();
}

/** Show a hint about what the budget means to those who cannot see the curve. */
export function describe(text) {
  slider.setAttribute("aria-valuetext", text);
}

/** Show the budget of the question. */
export function show() {
  const { budget } = question();
  if (budget === null) return;
  slider.value = positionOf(Math.min(budget, most));
  slider.style.setProperty("--place", `${(100 * slider.value) / STEPS}%`);
  number.style.setProperty("--digits", String(budget).length);
  if (document.activeElement !== number) number.value = budget;
}

/** Powers of ten up to the most, where they have room. */
export function marks() {
  const powers = [];
  for (let power = 1; power <= most; power *= 10) powers.push(power);
  const apart = (slider.clientWidth * Math.log(most / powers.at(-1))) / Math.log(Math.max(2, most));
  if (apart < ROOM && powers.length > 1) powers.pop();
  return most > powers.at(-1) ? [...powers, most] : powers;
}

function tick(budget) {
  const mark = make("span", {}, budget >= 10000 ? `${count(budget / 1000)}k` : count(budget));
  mark.style.left = `${(100 * positionOf(budget)) / STEPS}%`;
  return mark;
}

function step(budget, factor) {
  const next = factor > 1 ? Math.max(budget + 1, Math.round(budget * factor)) : Math.min(budget - 1, Math.round(budget * factor));
  const bounded = Math.min(most, Math.max(1, next));
  const [low, high] = gap;
  if (bounded > low && bounded < high) return factor > 1 ? Math.min(high, most) : low;
  return bounded;
}

const FACTORS = { ArrowRight: 1.1, ArrowUp: 1.1, PageUp: 2, ArrowLeft: 1 / 1.1, ArrowDown: 1 / 1.1, PageDown: 1 / 2 };

slider.addEventListener("input", () => change({ budget: budgetAt(Number(slider.value)) }));
// A step of the slider may be less than one product; a key always moves.
slider.addEventListener("keydown", (event) => {
  const factor = FACTORS[event.key];
  if (factor === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  change({ budget: step(question().budget, factor) });
});
number.addEventListener("input", () => {
  const given = Number(number.value);
  if (Number.isInteger(given) && given >= 1) change({ budget: Math.min(given, most) });
});
number.addEventListener("blur", () => {
  number.value = question().budget;
});
