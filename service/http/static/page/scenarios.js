// Scenarios: the shop's own recipes, where the service has any.

import { byId, make } from "./elements.js";
import { change, question } from "./question.js";

const select = byId("scenario");
let listed = [];

/** Take the scenarios of the service; null or none: there is nothing to choose. */
export function offer(answer) {
  listed = answer?.scenarios ?? [];
  byId("scenario-field").hidden = listed.length === 0;
  select.replaceChildren(make("option", { value: "" }, "None"), ...listed.map((each) => make("option", { value: each.name }, each.name)));
  show();
}

/** Show the scenario of the question. */
export function show() {
  select.value = question().scenario;
  byId("scenario-hint").textContent = listed.find((each) => each.name === question().scenario)?.description ?? "";
}

select.addEventListener("change", () => change({ scenario: select.value }));
