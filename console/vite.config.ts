import react from "@vitejs/plugin-react";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const outDir = "../src/moorage/console/dist";

export default defineConfig({
  plugins: [react(), compressed()],
  resolve: { alias: { "@": join(import.meta.dirname, "src") } },
  build: {
    outDir,
    emptyOutDir: true,
    target: "es2022",
    // The largest is the viewer of the API's description. What the console loads first, a test weighs.
    chunkSizeWarningLimit: 1600,
    // No data: URLs: the content security policy allows fonts and scripts from our own files alone.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      // Two pages that share nothing: the console, and the description of the API.
      input: {
        console: join(import.meta.dirname, "index.html"),
        "api-description": join(import.meta.dirname, "docs/api/index.html"),
      },
    },
  },
  // What a person reads depends on where they are; in tests they are where the clocks are UTC.
  test: { include: ["tests/**/*.test.ts"], env: { TZ: "UTC" }, reporters: "dot" },
  server: { proxy: { "/api": process.env.MOORAGE_URL ?? "http://127.0.0.1:8080" } },
});

/** A .gz beside every file that gains by it, so that the server compresses nothing itself. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    closeBundle() {
      for (const name of readdirSync(outDir, { recursive: true }) as string[]) {
        const path = join(outDir, name);
        if (statSync(path).isFile() && /\.(js|css|html|svg)$/.test(name)) {
          writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
        }
      }
    },
  };
}
