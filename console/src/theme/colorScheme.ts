import { localStorageColorSchemeManager } from "@mantine/core";

/** The key is also read by public/color-scheme.js, before the first paint. */
export const colorSchemeManager = localStorageColorSchemeManager({ key: "moorage-color-scheme" });
