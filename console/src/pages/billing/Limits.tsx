import { ActionIcon, Button, Switch } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Pencil } from "lucide-react";
import { useState } from "react";

import { messageOf } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { dollars } from "@/components/Money";
import { Meter } from "@/components/Meter";
import { MoneyInput } from "@/components/MoneyInput";
import { Card } from "@/components/Page";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Billing.module.css";
import { type Limit, limitsQuery, usePutLimit } from "./queries";

const WARNS_FROM = 0.8;

/** What may be spent in a calendar month, by the organization and by each project. */
export function Limits({ organizationId }: { organizationId: string }) {
  const { data: limits } = useQuery(limitsQuery(organizationId));
  const [changing, setChanging] = useState<Limit | null>(null);
  const now = useNow(60_000);
  if (!limits) return null;
  const all = { ...limits.organization, name: "All projects" };
  return (
    <Card title="Monthly limits" hint={`resets ${longDate(limits.resets_on, now)}`}>
      <table className={classes.limits}>
        <thead>
          <tr>
            <th scope="col">Project</th>
            <th scope="col">Spent in {monthName(now)}</th>
            <th scope="col">Limit</th>
          </tr>
        </thead>
        <tbody>
          {[all, ...limits.projects].map((one) => (
            <Scope key={one.scope_id} limit={one} change={() => setChanging(one)} />
          ))}
        </tbody>
      </table>
      <p className={classes.quiet}>
        At its limit, a project buys no further hours and what runs stops. Admins get a mail at 50, 80 and 100 %, and a day
        and an hour before the credit runs out.
      </p>
      {changing ? <ChangeLimit organizationId={organizationId} limit={changing} close={() => setChanging(null)} /> : null}
    </Card>
  );
}

function Scope({ limit, change }: { limit: Limit; change: () => void }) {
  const { limit_microusd: most, name } = limit;
  return (
    <>
      <tr>
        <th scope="row">{name}</th>
        <td>{dollars(limit.spent_microusd)}</td>
        <td>
          {most === null ? (
            <Button size="xs" variant="subtle" mr={-12} aria-label={`Set a limit for ${name}`} onClick={change}>
              Set a limit
            </Button>
          ) : (
            <>
              {dollars(most)}{" "}
              <ActionIcon aria-label={`Change the limit of ${name}`} onClick={change}>
                <Pencil size={14} strokeWidth={1.5} />
              </ActionIcon>
            </>
          )}
        </td>
      </tr>
      {most === null ? null : (
        <tr aria-hidden>
          <td colSpan={3} className={classes.meter}>
            <Meter part={part(limit)} tone={toneOf(limit)} />
          </td>
        </tr>
      )}
    </>
  );
}

/** Of the month that is counted, in UTC. */
function monthName(now: Date): string {
  return now.toLocaleDateString("en-GB", { month: "long", timeZone: "UTC" });
}

function part(limit: Limit): number {
  return limit.limit_microusd ? (limit.spent_microusd + limit.held_microusd) / limit.limit_microusd : 1;
}

function toneOf(limit: Limit): "warn" | "bad" | undefined {
  if (part(limit) >= 1) return "bad";
  return part(limit) >= WARNS_FROM ? "warn" : undefined;
}

function ChangeLimit({ organizationId, limit, close }: { organizationId: string; limit: Limit; close: () => void }) {
  const [isLimited, setLimited] = useState(true);
  const [amount, setAmount] = useState(limit.limit_microusd);
  const put = usePutLimit(organizationId, limit, close);
  return (
    <FormDialog
      opened
      close={close}
      title={`Monthly limit of ${limit.name === "All projects" ? "all projects" : limit.name}`}
      action={isLimited && amount !== null ? `Limit to ${dollars(amount)} a month` : "Save"}
      submit={() => put.mutate(isLimited ? amount : null)}
      busy={put.isPending}
      disabled={isLimited && amount === null}
    >
      <Switch label="Limit what is spent" checked={isLimited} onChange={(event) => setLimited(event.currentTarget.checked)} />
      {isLimited ? (
        <MoneyInput
          label="Dollars a calendar month"
          description={`${dollars(limit.spent_microusd)} spent in this one so far.`}
          data-autofocus
          initialMicrousd={amount}
          change={setAmount}
          error={put.error ? messageOf(put.error) : null}
        />
      ) : null}
    </FormDialog>
  );
}
