import { useEffect } from "react";

import { ErrorNotice } from "@/components/Patterns";

import classes from "./NotFound.module.css";
import { pauseBeforeReload, reload } from "./reloads";

/** A module that could not be loaded once stays so for as long as the page lives: only a new page helps, and mostly it does. */
export function MissingPart() {
  useEffect(() => {
    const pause = pauseBeforeReload();
    if (pause === null) return;
    const timer = setTimeout(reload, pause);
    return () => clearTimeout(timer);
  }, []);
  return (
    <main className={classes.page}>
      <h1 className={classes.title}>This page could not be loaded.</h1>
      <ErrorNotice error={new Error("A part of the console did not arrive. Check your connection.")} retry={() => reload()} />
    </main>
  );
}
