import { useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { Logo } from "@/frame/Logo";

import { CodeForm } from "./CodeForm";
import { EmailForm } from "./EmailForm";
import { Harbour } from "./Harbour";
import { Providers } from "./Providers";
import classes from "./SignIn.module.css";

const PROMISES = [
  ["No serve, no pay", "Hours count from the first ready replica."],
  ["Failures say why", "One exact sentence, and what to change."],
  ["Never below zero", "You always see when your credit ends."],
] as const;

/** One field, then six digits. The same steps make a new account. */
export function SignIn() {
  const { next } = useSearch({ from: "/login" });
  const [sentTo, setSentTo] = useState<string | null>(null);
  return (
    <div className={classes.page}>
      <main className={classes.entry}>
        <div className={classes.brand}>
          <Logo />
          Moorage
        </div>
        <div className={classes.form}>
          {sentTo === null ? (
            <>
              <EmailForm sent={setSentTo} />
              <Providers next={next} />
            </>
          ) : (
            <CodeForm email={sentTo} next={next} back={() => setSentTo(null)} />
          )}
        </div>
        <footer className={classes.foot}>{window.location.host}</footer>
      </main>
      <aside className={classes.picture}>
        <p className={classes.claim}>
          Your image, on a GPU,
          <br />
          behind an endpoint.
        </p>
        <Harbour />
        <ul className={classes.promises}>
          {PROMISES.map(([title, text]) => (
            <li key={title}>
              <strong>{title}</strong>
              <span>{text}</span>
            </li>
          ))}
        </ul>
      </aside>
    </div>
  );
}
