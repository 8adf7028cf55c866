/**
 * /docs/api: the API's description of itself, readable. A page of its own, so that the console carries nothing of it.
 */
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";

import "swagger-ui-dist/swagger-ui.css";

const isDark = document.documentElement.dataset.mantineColorScheme === "dark";
document.documentElement.classList.toggle("dark-mode", isDark);

const nothing = () => () => null;

SwaggerUI({
  url: "/openapi.json",
  dom_id: "#description",
  // It would ask another host whether the description is valid; a test of ours does.
  validatorUrl: null,
  // To be read. Whoever wants to send something has an example with each route, and keeps their key to themselves.
  supportedSubmitMethods: [],
  plugins: [() => ({ wrapComponents: { authorizeBtn: nothing, authorizeOperationBtn: nothing } })],
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  deepLinking: true,
  filter: true,
});
