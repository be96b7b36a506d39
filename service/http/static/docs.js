// Dark where the page at / was made dark, or else where the machine prefers it.
const preferred = matchMedia("(prefers-color-scheme: dark)");
const colour = () => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("budgetrec.theme");
  } catch {
    // Storage is switched off.
  }
  document.documentElement.classList.toggle("dark-mode", chosen === null ? preferred.matches : chosen === "dark");
};
colour();
preferred.addEventListener("change", colour);

// validatorUrl would ask a host elsewhere whether the document is valid.
window.ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  layout: "BaseLayout",
  presets: [SwaggerUIBundle.presets.apis],
  tryItOutEnabled: true,
  validatorUrl: null,
});
