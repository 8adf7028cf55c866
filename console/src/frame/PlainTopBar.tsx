import { Button } from "@mantine/core";
import { ArrowLeft } from "lucide-react";
import type { ReactNode } from "react";

import { paths } from "@/addresses/paths";
import { LinkTo } from "@/components/LinkTo";

import { AccountMenu } from "./AccountMenu";
import classes from "./Frame.module.css";
import { Logo } from "./Logo";

/** For pages that belong to no project: where one is, the way back, the account. */
export function PlainTopBar({ title, search }: { title: string; search?: ReactNode }) {
  return (
    <div className={classes.topBar}>
      <LinkTo to={paths.home()} className={classes.logo} aria-label="Moorage, containers">
        <Logo />
      </LinkTo>
      <span className={classes.place}>{title}</span>
      <div className={classes.plainRight}>
        {search}
        <Button
          component={LinkTo}
          to={paths.home()}
          variant="subtle"
          color="var(--m-ink-2)"
          leftSection={<ArrowLeft size={16} strokeWidth={1.5} />}
        >
          Containers
        </Button>
        <AccountMenu />
      </div>
    </div>
  );
}
