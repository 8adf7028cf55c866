import { LinkTo } from "@/components/LinkTo";

import classes from "./Frame.module.css";

/** The second bar: where one can go from here, and where one is. */
export function TabRow({ label, tabs }: { label: string; tabs: { to: string; label: string; active: boolean }[] }) {
  return (
    <nav className={classes.tabs} aria-label={label}>
      {tabs.map((tab) => (
        <LinkTo
          key={tab.to}
          to={tab.to}
          className={classes.tab}
          data-active={tab.active || undefined}
          aria-current={tab.active ? "page" : undefined}
        >
          {tab.label}
        </LinkTo>
      ))}
    </nav>
  );
}
