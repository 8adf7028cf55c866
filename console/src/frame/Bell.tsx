import { Popover, UnstyledButton } from "@mantine/core";
import { Bell as BellIcon } from "lucide-react";
import { type KeyboardEvent, useState } from "react";

import { useProject } from "@/addresses/useProject";
import { LinkTo } from "@/components/LinkTo";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Bell.module.css";
import { addressOf, counted, heard, type Notification } from "./notifications";
import { useNotifications } from "./useNotifications";

/** What the organization was told of. To open it is to have read it, in every browser of the same person. */
export function Bell() {
  const { project } = useProject();
  const [opened, setOpened] = useState(false);
  const { items, error, fresh, unread } = useNotifications(project.organization_id, opened);
  return (
    <>
      <span className="visually-hidden" aria-live="polite">
        {unread > 0 ? `${counted(unread)} new ${unread === 1 ? "notification" : "notifications"}` : null}
      </span>
      <Popover opened={opened} onChange={setOpened} position="bottom-end" shadow="md" trapFocus returnFocus>
        <Popover.Target>
          <UnstyledButton className={classes.bell} aria-label={heard(unread)} onClick={() => setOpened(!opened)}>
            <BellIcon size={16} strokeWidth={1.5} aria-hidden />
            {unread > 0 ? (
              <span className={classes.count} aria-hidden>
                {counted(unread)}
              </span>
            ) : null}
          </UnstyledButton>
        </Popover.Target>
        <Popover.Dropdown className={classes.panel} onKeyDown={stepThrough}>
          <h2 className={classes.title} tabIndex={-1} data-autofocus>
            Notifications
          </h2>
          {items ? (
            <List {...{ items, fresh }} projectId={project.id} close={() => setOpened(false)} />
          ) : error ? (
            <ErrorNotice error={error} />
          ) : (
            <Waiting rows={3} height={48} />
          )}
        </Popover.Dropdown>
      </Popover>
    </>
  );
}

interface ListProps {
  items: Notification[];
  fresh: ReadonlySet<string>;
  projectId: string;
  close: () => void;
}

function List({ items, fresh, projectId, close }: ListProps) {
  const now = useNow(60_000);
  if (items.length === 0)
    return <p className={classes.empty}>Nothing in the last 30 days. Failures, credit that ends and payments appear here.</p>;
  return (
    <ol className={classes.list}>
      {items.map((one) => {
        const to = addressOf(one, projectId);
        const shown = <Item one={one} isNew={fresh.has(one.id) || one.unread} now={now} />;
        return (
          <li key={one.id}>
            {to ? (
              <LinkTo to={to} className={classes.item} onClick={close}>
                {shown}
              </LinkTo>
            ) : (
              <div className={classes.item}>{shown}</div>
            )}
          </li>
        );
      })}
    </ol>
  );
}

function Item({ one, isNew, now }: { one: Notification; isNew: boolean; now: Date }) {
  return (
    <>
      <span className={classes.mark} data-new={isNew || undefined}>
        {isNew ? <span className="visually-hidden">New: </span> : null}
      </span>
      <span className={classes.what}>
        <strong>{one.title}</strong>
        {one.text ? <span className={classes.text}>{one.text}</span> : null}
      </span>
      <time dateTime={one.at}>{shortTime(one.at, now)}</time>
    </>
  );
}

/** The arrows go from one that leads somewhere to the next. */
function stepThrough(event: KeyboardEvent<HTMLElement>): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const links = [...event.currentTarget.querySelectorAll("a")];
  links[links.indexOf(document.activeElement as HTMLAnchorElement) + step]?.focus();
}
