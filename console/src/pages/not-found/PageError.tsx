import type { ErrorComponentProps } from "@tanstack/react-router";

import { Problem } from "@/api/problem";
import { ErrorNotice } from "@/components/Patterns";

import { NotFound } from "./NotFound";
import classes from "./NotFound.module.css";

export function PageError({ error, reset }: ErrorComponentProps) {
  if (error instanceof Problem && error.status === 404) return <NotFound />;
  return (
    <main className={classes.page}>
      <h1 className={classes.title}>This page could not be shown.</h1>
      <ErrorNotice error={error} retry={reset} />
    </main>
  );
}
