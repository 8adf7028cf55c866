import { BookOpen } from "lucide-react";
import type { ReactNode } from "react";

import classes from "./Page.module.css";

interface HandbookLinkProps {
  /** From `handbook`. */
  to: string;
  /** What it is about, where the words do not say it. */
  about?: string;
  children?: ReactNode;
}

/** To a page of the handbook, beside the console: whoever reads it comes back to where they were. */
export function HandbookLink({ to, about, children = "Handbook" }: HandbookLinkProps) {
  return (
    <a className={classes.handbook} href={to} target="_blank" rel="noopener" aria-label={about ? `Handbook: ${about}` : undefined}>
      <BookOpen size={14} strokeWidth={1.5} aria-hidden /> {children}
    </a>
  );
}
