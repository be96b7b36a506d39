// What requests of each size take now, from the service's own histograms.

import { byId, make } from "./elements.js";
import { askIfThere } from "./service.js";
import { count, duration } from "./words.js";

const FAMILY = "budgetrec_request_seconds";
const EVERY_MS = 3000;
const WINDOW_MS = 60_000;

const part = byId("latency-part");
const seen = [];
let visible = true;

/** Cumulative counts by budget class: { "256": [[seconds, count], …] }. */
export function parse(text) {
  const classes = {};
  for (const line of text.split("\n")) {
    if (!line.startsWith(`${FAMILY}_bucket`)) continue;
    const labels = line.slice(line.indexOf("{") + 1, line.indexOf("}"));
    const budget = labels.match(/budget_class="([^"]*)"/)[1];
    const bound = labels.match(/le="([^"]*)"/)[1];
    const number = Number(line.slice(line.indexOf("}") + 1).trim().split(" ")[0]);
    (classes[budget] ??= []).push([bound === "+Inf" ? Infinity : Number(bound), number]);
  }
  return classes;
}

/** The time below which a share of the requests stayed, in seconds; the bucket is taken to be filled evenly. */
export function quantile(buckets, part) {
  const wanted = part * buckets.at(-1)[1];
  let [low, before] = [0, 0];
  for (const [bound, number] of buckets) {
    if (number >= wanted && number > before) return bound === Infinity ? low : low + ((bound - low) * (wanted - before)) / (number - before);
    [low, before] = [bound === Infinity ? low : bound, number];
  }
  return low;
}

const less = (buckets, earlier) => buckets.map(([bound, number], at) => [bound, Math.max(0, number - (earlier?.[at]?.[1] ?? 0))]);

function show(now) {
  const earlier = seen[0].classes;
  let rows = Object.entries(now).map(([budget, buckets]) => [budget, less(buckets, earlier[budget])]);
  const live = rows.some(([, buckets]) => buckets.at(-1)[1] > 0);
  if (!live) rows = Object.entries(now);
  rows = rows.filter(([, buckets]) => buckets.at(-1)[1] > 0);
  byId("latency").hidden = rows.length === 0;
  byId("latency-hint").textContent = rows.length === 0 ? "No request with a budget yet." : live ? "Whole requests of the last minute, all workers." : "Whole requests since the service started, all workers.";
  byId("latency").replaceChildren(
    make("thead", {}, make("tr", {}, ["budget up to", "requests", "half within", "99 % within"].map((name) => make("th", { scope: "col" }, name)))),
    make(
      "tbody",
      {},
      rows.map(([budget, buckets]) =>
        make("tr", {}, make("th", { scope: "row" }, budget === "more" ? "more" : count(Number(budget))), make("td", {}, count(buckets.at(-1)[1])), ...[0.5, 0.99].map((share) => make("td", {}, duration(1e6 * quantile(buckets, share))))),
      ),
    ),
  );
}

async function look() {
  if (document.hidden || !visible) return true;
  let text;
  try {
    text = await askIfThere("metrics", { "name[]": FAMILY }, { text: true });
  } catch {
    return true; // the page says elsewhere that the service is gone
  }
  if (text === null) {
    part.hidden = true; // a load balancer keeps it in
    return false;
  }
  const now = parse(text);
  const at = performance.now();
  // A service that was restarted counts from nothing again.
  const total = (classes) => Object.values(classes).reduce((sum, buckets) => sum + buckets.at(-1)[1], 0);
  if (seen.length > 0 && total(now) < total(seen.at(-1).classes)) seen.length = 0;
  seen.push({ at, classes: now });
  while (seen.length > 1 && at - seen[1].at >= WINDOW_MS) seen.shift();
  show(now);
  return true;
}

/** Look every few seconds, as long as somebody sees it. */
export function watch() {
  new IntersectionObserver(([entry]) => {
    visible = entry.isIntersecting;
  }).observe(part);
  const again = async () => {
    if (await look()) setTimeout(again, EVERY_MS);
  };
  again();
}
