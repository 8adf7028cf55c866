import { Button, Checkbox, Textarea, TextInput, Tooltip } from "@mantine/core";
import { type ReactNode, useState } from "react";

import { messageOf } from "@/api/problem";
import { Copy } from "@/components/Copy";
import { FormDialog } from "@/components/FormDialog";
import { dollars } from "@/components/Money";
import { Facts } from "@/components/Page";

import classes from "./Operator.module.css";
import type { Obstacle } from "./payoutObstacle";
import { decisions, type Payout, useDecision } from "./queries";

export function DecidePayout({ payout, obstacle }: { payout: Payout; obstacle: Obstacle | null }) {
  const [asking, setAsking] = useState<"sent" | "refuse" | null>(null);
  const close = () => setAsking(null);
  const held = obstacle?.onHold ? obstacle.reason : undefined;
  return (
    <span className={classes.rowActions}>
      <Button size="xs" variant="subtle" color="var(--m-bad)" onClick={() => setAsking("refuse")}>
        Refuse…
      </Button>
      <Tooltip label={held} disabled={!held}>
        <Button
          size="xs"
          variant="default"
          // Not `disabled`: whoever cannot see the pointer reaches it, and hears why.
          aria-disabled={held ? true : undefined}
          data-disabled={held ? true : undefined}
          aria-description={held}
          onClick={() => (held ? undefined : setAsking("sent"))}
        >
          Mark as sent…
        </Button>
      </Tooltip>
      {held ? <SentAllTheSame payout={payout} doubt={held} /> : null}
      {asking === "sent" ? <MarkAsSent payout={payout} doubt={obstacle?.reason} close={close} /> : null}
      {asking === "refuse" ? <RefusePayout payout={payout} close={close} /> : null}
    </span>
  );
}

/** It had left the bank before it was refused or the account was changed: `doubt` says which. */
export function SentAllTheSame({ payout, doubt }: { payout: Payout; doubt: string }) {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <Button size="xs" variant="subtle" onClick={() => setAsking(true)}>
        It was sent…
      </Button>
      {asking ? <MarkAsSent payout={payout} doubt={doubt} close={() => setAsking(false)} /> : null}
    </>
  );
}

interface MarkAsSentProps {
  payout: Payout;
  /** Why it should not have been sent. */
  doubt: string | undefined;
  close: () => void;
}

function MarkAsSent({ payout, doubt, close }: MarkAsSentProps) {
  const [reference, setReference] = useState("");
  const [sent, setSent] = useState(false);
  const amount = dollars(payout.amount_microusd);
  const confirm = useDecision(
    () => decisions.confirmPayout(payout, reference.trim(), doubt !== undefined && sent),
    `${amount} booked as sent to ${payout.organization_name}.`,
    close,
  );
  return (
    <FormDialog
      opened
      close={close}
      title="Mark a payout as sent"
      action={`Book ${amount} as sent`}
      submit={() => confirm.mutate(undefined)}
      busy={confirm.isPending}
      disabled={reference.trim() === "" || (doubt !== undefined && !sent)}
    >
      <Facts items={transferOf(payout)} />
      <p>
        {doubt ? "Only if the transfer has left your bank already." : "Make the transfer at your bank first."} What is booked cannot be taken
        back.
      </p>
      <TextInput
        label="Reference of the transfer"
        description="The organization finds it by this."
        data-autofocus
        maxLength={140}
        value={reference}
        onChange={(event) => setReference(event.currentTarget.value)}
        error={confirm.error ? messageOf(confirm.error) : null}
      />
      {doubt ? (
        <Checkbox
          label="It has been sent already"
          description={`It should not have been. ${doubt} Later earnings make up for what is not covered.`}
          checked={sent}
          onChange={(event) => setSent(event.currentTarget.checked)}
        />
      ) : null}
    </FormDialog>
  );
}

/** What the bank asks for, each line to be copied. */
function transferOf({ organization_name: organization, amount_microusd: microusd, holder, account_number: account, bank, account: end }: Payout): [string, ReactNode][] {
  const items: [string, ReactNode][] = [
    ["For", organization],
    ["Amount", <Copied key="amount" text={dollars(microusd)} what="amount" />],
  ];
  if (holder) items.push(["Holder", <Copied key="holder" text={holder} what="holder" />]);
  items.push(["Account", account ? <Copied key="account" text={account} what="account" isCode /> : `… ${end}`]);
  if (bank) items.push(["Bank", <Copied key="bank" text={bank} what="bank" />]);
  return items;
}

function Copied({ text, what, isCode = false }: { text: string; what: string; isCode?: boolean }) {
  return (
    <>
      {isCode ? <code>{text}</code> : text} <Copy text={text} label={`Copy the ${what}`} />
    </>
  );
}

function RefusePayout({ payout, close }: { payout: Payout; close: () => void }) {
  const [reason, setReason] = useState("");
  const refuse = useDecision(
    () => decisions.refusePayout(payout, reason.trim()),
    `The payout to ${payout.organization_name} is refused.`,
    close,
  );
  return (
    <FormDialog
      opened
      destructive
      close={close}
      title="Refuse a payout"
      action="Refuse"
      submit={() => refuse.mutate(undefined)}
      busy={refuse.isPending}
      disabled={reason.trim().length < 3}
    >
      <p>Nothing is sent. {dollars(payout.amount_microusd)} stays earned and can be requested again.</p>
      <Textarea
        label="Reason"
        description="The organization's admins get it by mail."
        data-autofocus
        rows={3}
        maxLength={300}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        error={refuse.error ? messageOf(refuse.error) : null}
      />
    </FormDialog>
  );
}
