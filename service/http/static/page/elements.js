// Elements by id, and new ones. Text goes in as text and never as markup: titles and ids come from a catalogue.

/** The element with an id; the page has it. */
export const byId = (id) => document.getElementById(id);

/** A new element with attributes and children; texts become text nodes, null and false are left out. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== false));
  return element;
}

/** Which of the radio buttons of a name is chosen; `listen` is called with each choice. */
export function choice(name, listen) {
  const buttons = [...document.querySelectorAll(`input[name="${name}"]`)];
  for (const button of buttons) button.addEventListener("change", () => listen(button.value));
  return {
    get value() {
      return buttons.find((button) => button.checked).value;
    },
    set value(value) {
      for (const button of buttons) button.checked = button.value === value;
    },
  };
}
