// The key: asked for where the service wants one.

import { byId } from "./elements.js";
import { on, useKey } from "./service.js";

/** Show the form when a key is wanted; `used` is called when one was given. */
export function askForKey(used) {
  const form = byId("key");
  const input = byId("key-text");

  on("key", (error) => {
    byId("key-why").textContent = `${error.message} ${error.hint}`;
    byId("key-why").classList.toggle("wrong", error.code === "unknown_key");
    input.setAttribute("aria-invalid", String(error.code === "unknown_key"));
    if (!form.hidden) return;
    form.hidden = false;
    byId("main").hidden = true;
    input.focus();
  });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    useKey(input.value.trim());
    input.value = "";
    form.hidden = true;
    byId("main").hidden = false;
    used();
  });
}
