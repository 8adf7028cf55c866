/** What eslint does not see: that no file needs itself by way of others. Which layers there are, it checks (layers.js). */
import { expect, test } from "vitest";

const sources = import.meta.glob<string>("../src/**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });

const files = new Map(Object.entries(sources).map(([path, text]) => [path.replace("../src/", "").replace(/\.tsx?$/, ""), text]));

test("no imports in a circle", () => {
  expect(files.size).toBeGreaterThan(100);
  expect(circleIn(new Map([...files].map(([name, text]) => [name, importsOf(name, text)])))).toBeNull();
});

test("a circle is found", () => {
  const imports = new Map([
    ["components/Chart", ["components/plot"]],
    ["components/plot", ["components/marks"]],
    ["components/marks", ["components/plot"]],
  ]);
  expect(circleIn(imports)).toEqual(["components/plot", "components/marks", "components/plot"]);
  expect(importsOf("components/chart/Chart", 'import { a } from "./plot";\nimport type { B } from "@/api/queries";')).toEqual([
    "components/chart/plot",
    "api/queries",
  ]);
});

/** Those that are needed at once: pages that the router loads later may know its addresses. */
function importsOf(name: string, text: string): string[] {
  const folder = name.split("/").slice(0, -1).join("/");
  return [...text.matchAll(/^(?:import|export|\}) .*?from "(@|\.)\/([^"]+)";$/gm)].map(([, from, path]) =>
    from === "@" || folder === "" ? path! : `${folder}/${path}`,
  );
}

function circleIn(imports: Map<string, string[]>): string[] | null {
  const done = new Set<string>();
  const visit = (name: string, way: string[]): string[] | null => {
    const at = way.indexOf(name);
    if (at >= 0) return [...way.slice(at), name];
    if (done.has(name)) return null;
    for (const other of imports.get(name) ?? []) {
      const circle = visit(other, [...way, name]);
      if (circle) return circle;
    }
    done.add(name);
    return null;
  };
  for (const name of imports.keys()) {
    const circle = visit(name, []);
    if (circle) return circle;
  }
  return null;
}
