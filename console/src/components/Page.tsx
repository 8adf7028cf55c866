import type { ReactNode } from "react";

import { HandbookLink } from "./HandbookLink";
import classes from "./Page.module.css";

interface PageProps {
  title: string;
  /** One quiet line beside the title. */
  hint?: ReactNode;
  /** The handbook's page about it, from `handbook`. */
  learn?: string;
  actions?: ReactNode;
  /** Stays at the bottom of the screen while the page scrolls: what is said and done about all of it. */
  foot?: ReactNode;
  children: ReactNode;
}

/** A page below the bars: its title, what can be done, its cards. It scrolls by itself. */
export function Page({ title, hint, learn, actions, foot, children }: PageProps) {
  return (
    <main className={classes.page}>
      <header className={classes.head}>
        <h1 className={classes.title}>{title}</h1>
        {hint ? <span className={classes.hint}>{hint}</span> : null}
        {learn ? <HandbookLink to={learn} about={title} /> : null}
        {actions ? <div className={classes.actions}>{actions}</div> : null}
      </header>
      {children}
      {foot ? <footer className={classes.foot}>{foot}</footer> : null}
    </main>
  );
}

interface CardProps {
  title?: ReactNode;
  hint?: ReactNode;
  action?: ReactNode;
  /** The content reaches the card's edges: tables, charts, lists. */
  flush?: boolean;
  children: ReactNode;
  label?: string;
}

export function Card({ title, hint, action, flush = false, children, label }: CardProps) {
  return (
    <section className={classes.card} aria-label={label ?? (typeof title === "string" ? title : undefined)}>
      {title ? (
        <header className={classes.cardHead}>
          <h2 className={classes.cardTitle}>{title}</h2>
          {hint ? <span className={classes.hint}>{hint}</span> : null}
          {action ? <div className={classes.actions}>{action}</div> : null}
        </header>
      ) : null}
      <div className={flush ? undefined : classes.cardBody} data-headed={title ? true : undefined}>
        {children}
      </div>
    </section>
  );
}

/** Names left, values right, as settings are read. */
export function Facts({ items }: { items: [name: string, value: ReactNode][] }) {
  return (
    <dl className={classes.facts}>
      {items.map(([name, value]) => (
        <div key={name} className={classes.fact}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
