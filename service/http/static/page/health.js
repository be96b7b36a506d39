// Whether the service is there, in the corner of the page.

import { byId } from "./elements.js";
import { Gone, on } from "./service.js";

const place = byId("health");

function show(state, text) {
  place.dataset.state = state;
  if (place.textContent !== text) place.textContent = text;
}

/** Show that it answers, and with which version. */
export const ready = (version) => show("ready", version === null ? "Ready" : `Ready · ${version}`);

on("gone", (error) =>
  show("gone", error instanceof Gone ? "The service does not answer. Trying again…" : `${error.message} Trying again…`),
);
on("key", () => show("key", "A key is needed"));
