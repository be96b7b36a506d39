// What a budget buys and costs: the model's own curves, on the scale of the slider under them.

import { largest, marks } from "./budget.js";
import { byId, make } from "./elements.js";
import { change, question } from "./question.js";
import { count, duration, share } from "./words.js";

// The slider's ends stand under these; page.css says the same.
const LEFT = 46;
const RIGHT = 58;
const HEIGHT = 210;
const NARROW_HEIGHT = 170;
const NAMES = { known: "known users", vectors: "vectors and new users", similar: "similar items", filtered: "under this filter" };
const COLOURS = { known: "--accent", vectors: "--second", similar: "--accent", filtered: "--third" };

const place = byId("curve");
let curves = {};
let law = null;
// Curves under filters, by the share of the items that these leave, and the share that the filter of now leaves.
let shares = [];
let selectivity = 1;
let chart = null;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Take what `GET /budgets` says; null where this model has no curve. */
export function offer(budgets) {
  curves = {};
  law = budgets?.cost_law ?? null;
  if (budgets !== null) {
    curves.known = budgets.points;
    if (budgets.vectors !== null) curves.vectors = budgets.vectors;
    if (budgets.similar) curves.similar = budgets.similar;
  }
  shares = (budgets?.calibration.filtered ?? []).map((each) => ({
    share: each.selectivity,
    points: each.budgets.map((budget, place) => ({ budget, recall_at_10: each.recalls[place] })),
  }));
  byId("curve-part").hidden = budgets === null;
  draw();
}

/** Say which share of the items the filter leaves; 1 without one. */
export function under(part) {
  if (part === selectivity) return;
  selectivity = part;
  draw();
}

/** Microseconds that a budget costs, by the live law; null where that is not known. */
export const time = (budget) => (law === null ? null : law.a_us + law.b_us * budget);

/** The curve of the question without its filter. */
function unfiltered() {
  const { kind } = question();
  if (kind === "similar") return curves.similar === undefined ? null : "similar";
  if (kind === "items" && curves.vectors !== undefined) return "vectors";
  return curves.known === undefined ? null : "known";
}

/** The curve that holds for the question, null where none was measured. */
function own() {
  if (selectivity === 1) return unfiltered();
  return unfiltered() === null || unfiltered() === "similar" || shares.length === 0 ? null : "filtered";
}

/** The recall that a budget buys by a curve. Of the two measured shares around a filter's the lower counts. */
function bought(name, budget) {
  if (name !== "filtered") return at(curves[name], budget);
  const all = [{ share: 1, points: curves[unfiltered()] }, ...shares];
  const around = [all.findLast((each) => each.share >= selectivity), all.find((each) => each.share <= selectivity)];
  const recalls = around.filter(Boolean).map((each) => at(each.points, budget));
  return recalls.includes(null) ? null : Math.min(...recalls);
}

/** The recall that a budget buys by the curve of the question, null where that was not measured. */
export function recall(budget) {
  const name = own();
  return name === null ? null : bought(name, budget);
}

function at(points, budget) {
  if (budget < points[0].budget) return null;
  const after = points.findIndex((point) => point.budget >= budget);
  if (after < 0) return points.at(-1).recall_at_10;
  if (after === 0) return points[0].recall_at_10;
  const [low, high] = [points[after - 1], points[after]];
  const part = Math.log(budget / low.budget) / Math.log(high.budget / low.budget);
  return low.recall_at_10 + part * (high.recall_at_10 - low.recall_at_10);
}

function shown() {
  const measured = (question().kind === "similar" ? ["similar"] : ["known", "vectors"]).filter((name) => curves[name] !== undefined);
  return own() === "filtered" ? [...measured, "filtered"] : measured;
}

/** Draw anew: other curves, another width, other colours. */
export function draw() {
  chart?.destroy();
  chart = null;
  const names = shown();
  if (names.length === 0 || place.clientWidth === 0) return;
  const measured = [...names.flatMap((name) => curves[name] ?? []), ...shares.flatMap((each) => each.points)];
  const budgets = [...new Set([...measured.map((point) => point.budget), ...steps()])].filter((budget) => budget <= largest()).sort((a, b) => a - b);
  const ink = colour("--muted");
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "12px system-ui, sans-serif";
  const narrow = place.clientWidth < 480;
  chart = new uPlot(
    {
      width: place.clientWidth,
      height: narrow ? NARROW_HEIGHT : HEIGHT,
      padding: [10, 0, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: [0, Math.log10(Math.max(2, largest()))] }, y: { range: [0, 1.04] }, time: { range: (_, low, high) => [0, high * 1.08] } },
      axes: [
        { splits: marks().map(Math.log10), values: () => marks().map(() => ""), grid, ticks: { show: false }, size: 4, stroke: ink },
        { splits: [0, 0.25, 0.5, 0.75, 1], values: (_, splits) => splits.map((each) => each.toFixed(2).replace(/0$/, "")), grid, ticks: { show: false }, size: LEFT, gap: 8, stroke: ink, font },
        { scale: "time", side: 1, values: (_, splits) => splits.map((each) => (each === 0 ? "" : duration(each))), grid: { show: false }, ticks: { show: false }, size: RIGHT, gap: 8, space: 44, stroke: ink, font },
      ],
      series: [
        {},
        ...names.map((name) => ({ stroke: colour(COLOURS[name]), width: name === own() ? 2.5 : 1.5, alpha: name === own() ? 1 : 0.75, points: { show: false } })),
        { scale: "time", stroke: ink, width: 1.25, dash: [3, 4], points: { show: false } },
      ],
      hooks: { draw: [pointer] },
    },
    [budgets.map(Math.log10), ...names.map((name) => budgets.map((budget) => bought(name, budget))), budgets.map(time)],
    place,
  );
  chart.over.addEventListener("click", (event) => {
    const share = (event.clientX - chart.over.getBoundingClientRect().left) / chart.over.clientWidth;
    change({ budget: Math.max(1, Math.round(largest() ** share)) });
  });
  byId("legend").replaceChildren(
    ...names.map((name) => make("span", { class: name === own() ? "own" : null }, make("i", { class: `line ${name}` }), `recall, ${NAMES[name]}`)),
    make("span", {}, make("i", { class: "line time" }), "time of a request"),
  );
  describe(names);
}

/** Budgets between the measured ones, so that the line of time is smooth. */
function steps() {
  return Array.from({ length: 60 }, (_, step) => Math.round(largest() ** (step / 59)));
}

/** The slider's place on the curves. */
function pointer(drawn) {
  if (question().budget === null) return;
  const { ctx, bbox } = drawn;
  const budget = Math.min(question().budget, largest());
  const x = drawn.valToPos(Math.log10(budget), "x", true);
  ctx.save();
  ctx.setLineDash([]);
  ctx.strokeStyle = colour("--ink");
  ctx.globalAlpha = 0.45;
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.globalAlpha = 1;
  const name = own();
  const height = name === null ? null : bought(name, budget);
  if (height !== null) {
    ctx.fillStyle = colour(COLOURS[name]);
    ctx.strokeStyle = colour("--surface");
    ctx.lineWidth = 2.5 * devicePixelRatio;
    ctx.beginPath();
    ctx.arc(x, drawn.valToPos(height, "y", true), 6 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}

function describe(names) {
  const said = names.filter((name) => curves[name] !== undefined).map((name) => `${NAMES[name]}: ${curves[name].map((point) => `${share(point.recall_at_10)} at ${count(point.budget)}`).join(", ")}`);
  place.setAttribute("aria-label", `Recall at ten against exact search, by budget. For ${said.join(". For ")}.`);
}

/** Show the slider's place. */
export const move = () => chart?.redraw(false);

new ResizeObserver(() => chart?.width !== place.clientWidth && draw()).observe(place);
document.documentElement.addEventListener("theme", draw);
