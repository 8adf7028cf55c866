import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

import { layerRules } from "./layers.js";

export default ts.config(
  { ignores: ["src/api/schema.d.ts"] },
  ...ts.configs.recommended,
  { plugins: { "react-hooks": hooks }, rules: { "react-hooks/rules-of-hooks": "error", "react-hooks/exhaustive-deps": "error" } },
  {
    rules: {
      "max-lines": ["error", 300],
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Nothing is shown as markup." },
      ],
    },
  },
  ...layerRules(),
);
