// Fonts of this machine only: the theme's own would come from elsewhere.
const plain = "system-ui, sans-serif";
Redoc.init(
  "openapi.json",
  {
    theme: {
      typography: { fontFamily: plain, headings: { fontFamily: plain }, code: { fontFamily: "ui-monospace, monospace" } },
    },
  },
  document.getElementById("redoc"),
);
