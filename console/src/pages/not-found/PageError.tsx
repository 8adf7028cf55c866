import type { ErrorComponentProps } from "@tanstack/react-router";

import { Problem } from "@/api/problem";
import { ErrorNotice } from "@/components/Patterns";

import { MissingPart } from "./MissingPart";
import { NotFound } from "./NotFound";
import classes from "./NotFound.module.css";

export function PageError({ error, reset }: ErrorComponentProps) {
  if (error instanceof Problem && error.status === 404) return <NotFound />;
  if (isAboutAFile(error)) return <MissingPart />;
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
