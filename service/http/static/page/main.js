// The page: asks the service when the question changes, and shows what it says.

import * as answers from "./answers.js";
import * as budget from "./budget.js";
import * as code from "./code.js";
import * as curve from "./curve.js";
import { byId, make } from "./elements.js";
import * as filter from "./filter.js";
import * as health from "./health.js";
import { askForKey } from "./key.js";
import * as latency from "./latency.js";
import * as model from "./model.js";
import { adopt, call, change, isComplete, onChange, question, readAddress } from "./question.js";
import * as receipt from "./receipt.js";
import * as scenarios from "./scenarios.js";
import { Gone, ask, askIfThere, on } from "./service.js";
import * as subject from "./subject.js";
import { duration, plural, share } from "./words.js";

// More than any service allows: it grants what it can.
const EVERYTHING = 1e9;
const USERS = 100;

let facts = null;
let budgets = null;
let granted = null;
let exact = null;
let later = null;
// The model to which an experiment sent whoever is asked for, if it did.
let sent = "";

/** Call `run` now, or once more when it is done: under a moving slider one request is on its way, not hundreds. */
function collapsed(run) {
  let running = false;
  let again = false;
  return async () => {
    again = true;
    if (running) return;
    running = true;
    while (again) {
      again = false;
      await run();
    }
    running = false;
  };
}

/** Whether what is shown answers a question from before: the one of now was refused, or nobody is there to ask. */
function old(isOld) {
  for (const id of ["answers-part", "receipt-part", "readings"]) byId(id).classList.toggle("old", isOld);
  if (isOld) answers.age();
}

/** Show no answer. */
function nothing(why) {
  granted = null;
  exact = null;
  answers.clear(why);
  receipt.clear();
  byId("readings").replaceChildren();
  curve.under(1);
}

function problem(error) {
  clearTimeout(later);
  const place = byId("problem");
  const isFilter = error?.code === "invalid_parameter" && /^filter/.test(error.message);
  filter.show(isFilter ? error.message : null);
  const isShown = error !== null && !isFilter && !["missing_key", "unknown_key"].includes(error.code);
  const isAway = error instanceof Gone || error?.code === "not_ready";
  const text = isShown ? `${error.message} ${isAway ? "Trying again…" : (error.hint ?? "")}` : "";
  place.hidden = !isShown;
  if (place.textContent !== text) place.textContent = text; // said once, however often it is tried
  if (isShown && !isAway && ![429, 503].includes(error.status)) nothing("No answer.");
  old(error !== null && granted !== null);
  // Too much was asked, by this key or by all: the question stands.
  if ([429, 503].includes(error?.status) && error.code !== "not_ready") {
    later = setTimeout(() => [refreshExact(), refresh()], 1000 * (error.retryAfter ?? 1));
  }
}

function showAnswers() {
  answers.show(granted, exact);
  receipt.show(granted, facts?.n_items ?? null);
  curve.under(facts === null || !Number.isInteger(granted.eligible) ? 1 : Math.min(1, granted.eligible / facts.n_items));
  const searched = granted.fallback === null;
  const bought = searched ? curve.recall(question().budget) : null;
  const keeps = question().kind === "similar" || !searched ? null : model.kept(budgets, question().budget);
  const readings = [
    bought === null ? null : ["expected recall", share(bought)],
    keeps === null ? null : ["NDCG kept", share(keeps)],
    exact === null || !searched ? null : ["found here", `${answers.found(granted, exact)} of ${exact.items.length}`],
    searched ? ["searched in", duration(granted.search_us)] : null,
  ].filter(Boolean);
  byId("readings").replaceChildren(...readings.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const words = bought === null ? "" : `, expected recall ${share(bought)}`;
  budget.describe(`${plural(question().budget, "inner product")}${words}`);
}

/** Ask for the exact answer: the most that may be spent. */
const refreshExact = collapsed(async () => {
  if (!isComplete()) return;
  const { path, values } = call(facts?.n_items ?? EVERYTHING, filter.fields());
  try {
    exact = await ask(path, values);
  } catch {
    exact = null; // the same question with a smaller budget says what is wrong
    return;
  }
  if (exact.degraded?.reason !== "overload" && exact.fallback === null) {
    // Under a filter few items may be left, and no more can be spent than on all.
    const most = Math.max(1, Math.min(exact.budget, facts?.n_items ?? exact.spent));
    if (most !== budget.largest()) {
      budget.limit(most, facts?.max_budget ?? Infinity, facts?.n_items ?? Infinity);
      curve.draw();
    }
  }
  if (granted !== null) showAnswers();
});

/** Ask the question. */
const refresh = collapsed(async () => {
  if (!isComplete()) {
    nothing("Nobody is asked for yet.");
    problem(null);
    return;
  }
  const { path, values } = call(undefined, filter.fields());
  try {
    granted = await ask(path, values);
    if (question().budget === null) {
      adopt(granted.budget);
      showQuestion();
      curve.move();
    }
    problem(null);
    health.ready(granted.model);
    showAnswers();
    const by = question().arm === "" && granted.experiment ? granted.arm : "";
    if (by !== sent || (facts !== null && by === (granted.arm ?? "") && granted.model !== facts.version)) {
      sent = by;
      describe();
    }
  } catch (error) {
    problem(error);
  }
});

/** Somebody to begin with: the first user, or in a model without users the most popular item. */
async function begin(users) {
  if (users === null || question().kind !== "user" || question().user !== "") return;
  if (users.users.length > 0) change({ user: users.users[0] });
  else if (users.n_users === 0) {
    const { items } = await ask("items", { limit: 1, model: question().arm });
    change({ kind: "items", items });
  }
}

/** Ask what the service is: model, curve, attributes, users, scenarios, versions. */
const describe = collapsed(async () => {
  const arm = question().arm || sent;
  try {
    let users, attributes, versions, models, listed;
    [facts, budgets, users, attributes, versions, models, listed] = await Promise.all([
      askIfThere("model", { model: arm }),
      askIfThere("budgets", { model: arm }),
      askIfThere("users", { limit: USERS, model: arm }),
      askIfThere("attributes", { model: arm }),
      askIfThere("versions", { model: arm }),
      askIfThere("models"),
      askIfThere("scenarios"),
    ]);
    if (question().arm !== "" && models !== null && !models.models.some((each) => each.name === question().arm)) {
      change({ arm: "" }); // an old address: what it names is no longer served
      return;
    }
    health.ready(facts?.version ?? null);
    subject.offer(users, users !== null);
    filter.offer(attributes?.attributes ?? facts?.attributes.map((each) => ({ ...each, some: [] })) ?? []);
    scenarios.offer(listed);
    model.offerArms(models);
    model.show(facts, budgets, versions);
    if (facts !== null) budget.limit(budget.largest() > facts.n_items ? facts.n_items : budget.largest(), facts.max_budget, facts.n_items);
    curve.offer(budgets);
    code.show();
    await begin(users);
    refresh();
    refreshExact();
    await subject.findTitles();
  } catch (error) {
    problem(error);
  }
});

function showQuestion() {
  subject.show();
  scenarios.show();
  budget.show();
  code.show();
  const topK = String(question().topK);
  // An address may ask for another number.
  if (![...byId("top-k").options].some((each) => each.value === topK)) byId("top-k").append(make("option", {}, topK));
  byId("top-k").value = topK;
}

onChange((changed) => {
  showQuestion();
  if (changed.includes("kind")) curve.draw();
  else curve.move();
  if (changed.includes("arm")) describe();
  else {
    if (changed.some((name) => name !== "budget")) refreshExact();
    refresh();
  }
});
byId("top-k").addEventListener("change", () => change({ topK: Number(byId("top-k").value) }));
addEventListener("hashchange", () => {
  readAddress();
  showQuestion();
  describe();
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address keeps the question
  byId("budget").focus();
});
on("gone", problem);
on("back", describe);
askForKey(describe);

readAddress();
showQuestion();
receipt.clear();
describe();
addEventListener("load", () => setTimeout(latency.watch, 300));
