// Suggestions under an input, for hands on the keyboard and for screen readers: a combobox with a list box.

import { make } from "./elements.js";

const PAUSE_MS = 100;

/**
 * Suggest while somebody types.
 *   find(text, caret)  returns options: [{ text, note, value }], or a promise of them
 *   choose(option)     is called with the one that was chosen
 *   enter(text)        is called for Enter without a choice
 */
export function suggest(input, { find, choose, enter }) {
  const list = make("ul", { id: `${input.id}-list`, role: "listbox", class: "suggestions", "aria-label": "Suggestions", hidden: true });
  input.after(list);
  for (const [name, value] of Object.entries({
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-controls": list.id,
    "aria-expanded": "false",
  })) {
    input.setAttribute(name, value);
  }
  let options = [];
  let active = -1;
  let waiting = null;
  let asked = 0;

  const close = () => {
    asked += 1; // what is under way comes too late
    clearTimeout(waiting);
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const take = (option) => {
    close();
    choose(option);
  };

  const point = (at) => {
    active = at;
    [...list.children].forEach((child, place) => child.setAttribute("aria-selected", String(place === at)));
    if (at < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", list.children[at].id);
    list.children[at].scrollIntoView({ block: "nearest" });
  };

  const show = (found) => {
    options = found;
    if (options.length === 0) return close();
    list.replaceChildren(
      ...options.map((option, at) =>
        make(
          "li",
          { id: `${list.id}-${at}`, role: "option", "aria-selected": "false", onpointerdown: (event) => event.preventDefault(), onclick: () => take(option) },
          make("span", { dir: "auto" }, option.text),
          option.note ? make("small", {}, option.note) : null,
        ),
      ),
    );
    list.hidden = false;
    active = -1;
    input.setAttribute("aria-expanded", "true");
    input.removeAttribute("aria-activedescendant");
  };

  const look = async () => {
    asked += 1;
    const mine = asked;
    try {
      const found = await find(input.value, input.selectionStart ?? input.value.length);
      if (mine === asked && document.activeElement === input) show(found);
    } catch {
      close(); // who asks next says what is wrong
    }
  };

  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(look, PAUSE_MS);
  };

  input.addEventListener("input", soon);
  input.addEventListener("click", () => list.hidden && soon());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) return look();
      const down = event.key === "ArrowDown";
      point(down ? (active + 1) % options.length : (active <= 0 ? options.length : active) - 1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (!list.hidden && active >= 0) return take(options[active]);
      close();
      enter(input.value.trim());
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    }
  });
}
