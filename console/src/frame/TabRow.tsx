import { useMergedRef } from "@mantine/hooks";
import { useEffect, useRef } from "react";

import { cutEdges } from "@/components/cutEdges";
import { LinkTo } from "@/components/LinkTo";

import classes from "./Frame.module.css";

/** The second bar: where one can go from here, and where one is. On a phone it is longer than the screen. */
export function TabRow({ label, tabs }: { label: string; tabs: { to: string; label: string; active: boolean; note?: string | undefined }[] }) {
  const row = useRef<HTMLElement>(null);
  const ref = useMergedRef(row, cutEdges);
  const active = tabs.find((tab) => tab.active)?.to;
  useEffect(() => {
    row.current?.querySelector("[data-active]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [active]);
  return (
    <nav ref={ref} className={classes.tabs} aria-label={label}>
      {tabs.map((tab) => (
        <LinkTo
          key={tab.to}
          to={tab.to}
          className={classes.tab}
          data-active={tab.active || undefined}
          aria-current={tab.active ? "page" : undefined}
        >
          {tab.label}
          {tab.note ? " " : null}
          {tab.note ? <span className={classes.tabNote}>{tab.note}</span> : null}
        </LinkTo>
      ))}
    </nav>
  );
}
