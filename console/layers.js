/**
 * Imports point down this list only, as in Python's: a page may know the frame around it, a component knows no page. The
 * router, which knows every page, is above them; the addresses, which every page makes links with, are below.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";

export const layers = ["routes", "pages", "frame", "machines", "containers", "components", "addresses", "api", "theme"];

const RULE = "@typescript-eslint/no-restricted-imports";

/** The linter's configuration: what each layer may not import. A folder that is in no layer is an error. */
export function layerRules() {
  const unknown = readdirSync(join(import.meta.dirname, "src"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !layers.includes(entry.name))
    .map((entry) => entry.name);
  if (unknown.length > 0) throw new Error(`In no layer of layers.js: ${unknown.join(", ")}`);
  return layers.map((layer, index) => ({
    files: [`src/${layer}/**`],
    rules: { [RULE]: ["error", { patterns: [...above(layer, index), outside] }] },
  }));
}

function above(layer, index) {
  const higher = layers.slice(0, index).map((name) => ({
    regex: `^@/${name}/`,
    message: `${layer}/ is below ${name}/ (layers.js).`,
  }));
  const pages = { regex: "^@/pages/", message: "A page imports nothing from another page's folder." };
  return layer === "pages" ? [...higher, pages] : higher;
}

/** Else a path could lead anywhere, past the rules above. */
const outside = { regex: "^\\.\\./", message: "Say where it is: @/folder/file." };
