// The model: what it is, what it is worth on real behaviour, and which versions there are.

import { byId, make } from "./elements.js";
import { change, question } from "./question.js";
import { count, moment, plural, share } from "./words.js";

const MADE = { fold_in: "folded in as the training does", mean: "by the mean of their items" };

const fact = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
const cells = (tag, values) => make("tr", {}, values.map((value) => make(tag, tag === "th" ? { scope: "col" } : {}, value)));

/** Show what is served; null where this key may not know it. */
export function show(model, budgets, versions) {
  byId("model-part").hidden = model === null;
  if (model === null) return;
  byId("facts").replaceChildren(
    fact("version", model.version),
    fact("items", count(model.n_items)),
    fact("users", count(model.n_users)),
    fact("dimensions", count(model.n_dims)),
    fact("new users", MADE[model.makes_vectors_by]),
    fact("built", moment(model.built_at)),
    fact("loaded", moment(model.loaded_at)),
  );
  byId("quality").replaceChildren(...quality(budgets?.quality ?? null));
  byId("versions").replaceChildren(...table(versions));
}

function quality(measured) {
  if (measured === null) return [];
  const { exact, popular } = measured;
  const rows = [["NDCG@10", "ndcg_at_10"], ["hit rate@10", "hit_rate_at_10"], ["recall@10", "recall_at_10"]];
  return [
    make("h3", {}, "On what people really did"),
    make(
      "table",
      { class: "numbers" },
      make("thead", {}, cells("th", ["measured", "this model", "popular items"])),
      make("tbody", {}, rows.map(([name, key]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, share(exact[key])), make("td", {}, share(popular[key]))))),
    ),
    make("p", { class: "hint" }, `Measured on ${plural(measured.n_users, "user")}; ${measured.split.replaceAll("T00:00:00", "")}.`),
  ];
}

/** The share of the exact search's NDCG that a budget keeps, null where that was not measured. */
export function kept(budgets, budget) {
  const points = budgets?.quality?.points ?? [];
  return points.findLast((point) => point.budget <= budget)?.share ?? null;
}

function table(versions) {
  if (versions === null || versions.n_versions === 0) return [];
  const state = (each) => {
    const marks = [each.version === versions.served && "serving", each.is_current && each.version !== versions.served && "current", each.is_previous && "rollback"];
    return marks.filter(Boolean).join(", ");
  };
  const rows = versions.versions.slice(0, 8).map((each) =>
    cells("td", [
      each.version,
      each.recall_at_10 === null ? "–" : share(each.recall_at_10),
      each.ndcg_at_10 === null ? "–" : share(each.ndcg_at_10),
      make("span", { class: "state" }, state(each)),
    ]),
  );
  const more = versions.n_versions - rows.length;
  return [
    make("h3", {}, "Versions"),
    make("table", { class: "numbers versions" }, make("thead", {}, cells("th", ["version", "recall", "NDCG", "state"])), make("tbody", {}, rows)),
    more > 0 ? make("p", { class: "hint" }, `And ${count(more)} older ones.`) : "",
  ];
}

/** Let one of several models be chosen. */
export function offerArms(models) {
  const several = (models?.models.length ?? 0) > 1;
  byId("model-field").hidden = !several;
  if (!several) return;
  const first = models.experiment === null ? `As usual (${models.models.find((each) => each.is_default).name})` : `As the experiment ${models.experiment} says`;
  byId("arm").replaceChildren(make("option", { value: "" }, first), ...models.models.map((each) => make("option", { value: each.name }, each.name)));
  byId("arm").value = question().arm;
}

byId("arm").addEventListener("change", () => change({ arm: byId("arm").value }));
