import type { ErrorComponentProps } from "@tanstack/react-router";

import { Problem } from "@/api/problem";
import { ErrorNotice } from "@/components/Patterns";

import { NotFound } from "./NotFound";
import classes from "./NotFound.module.css";

export function PageError({ error, reset }: ErrorComponentProps) {
  if (error instanceof Problem && error.status === 404) return <NotFound />;
  if (isAboutAFile(error)) {
    // A module that could not be loaded once stays so for as long as the page lives.
    return (
      <main className={classes.page}>
        <h1 className={classes.title}>This page could not be loaded.</h1>
        <ErrorNotice error={new Error("A part of the console did not arrive. Check your connection.")} retry={() => window.location.reload()} />
      </main>
    );
  }
  return (
    <main className={classes.page}>
      <h1 className={classes.title}>This page could not be shown.</h1>
      <ErrorNotice error={error} retry={reset} />
    </main>
  );
}

/** What Vite and browsers say when the code or the styles of a page do not arrive. */
function isAboutAFile(error: unknown): boolean {
  return error instanceof Error && /dynamically imported module|Importing a module script failed|Unable to preload CSS/.test(error.message);
}
