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
