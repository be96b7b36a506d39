// Dark or light: what the machine prefers, until the button says otherwise. Runs before anything is drawn.
(() => {
  const root = document.documentElement;
  const preferred = matchMedia("(prefers-color-scheme: dark)");

  const chosen = () => {
    try {
      return localStorage.getItem("budgetrec.theme");
    } catch {
      return null; // storage is switched off
    }
  };

  const show = () => {
    const dark = (chosen() ?? (preferred.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = dark ? "dark" : "light";
    document.getElementById("theme")?.setAttribute("aria-pressed", String(dark));
    root.dispatchEvent(new Event("theme"));
  };

  show();
  preferred.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme").addEventListener("click", () => {
      const other = root.dataset.theme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem("budgetrec.theme", other);
      } catch {
        root.dataset.theme = other;
        root.dispatchEvent(new Event("theme"));
        return;
      }
      show();
    });
  });
})();
