import { useEffect } from "react";

import { unanswered, whenItReturns } from "@/api/connection";
import { ErrorNotice } from "@/components/Patterns";

import classes from "./NotFound.module.css";
import { mayReload, reload } from "./reloads";

/** A module that could not be loaded once stays so for as long as the page lives: only a new page helps, once the service answers. */
export function MissingPart() {
  useEffect(() => {
    if (!mayReload()) return;
    unanswered();
    return whenItReturns(reload);
  }, []);
  return (
    <main className={classes.page}>
      <h1 className={classes.title}>This page could not be loaded.</h1>
      <ErrorNotice error={new Error("A part of the console did not arrive. Check your connection.")} retry={reload} />
    </main>
  );
}
