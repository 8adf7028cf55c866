import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import type { Billing } from "@/api/queries";
import { Confirm } from "@/components/Confirm";
import { FormDialog } from "@/components/FormDialog";
import { dollars } from "@/components/Money";
import { MoneyInput } from "@/components/MoneyInput";
import { Card, Facts } from "@/components/Page";
import { failed } from "@/components/toasts";

import { type AutoTopUp as Agreement, autoTopUpQuery, cardQuery, type SavedCard, useAutoTopUp, useCard } from "./autoTopUpQueries";
import classes from "./Billing.module.css";

const WORDS: Record<Agreement["state"], { word: string; tone?: string }> = {
  off: { word: "Off" },
  on: { word: "On", tone: "ok" },
  waiting: { word: "Tries again", tone: "warn" },
  paused: { word: "Paused", tone: "bad" },
  capped: { word: "At its cap", tone: "warn" },
  no_card: { word: "No card", tone: "warn" },
  suspended: { word: "Suspended", tone: "bad" },
};

/** A card that is kept for later, and whether it is charged when the credit gets low. */
export function AutoTopUp({ organizationId, billing }: { organizationId: string; billing: Billing }) {
  const { data: card } = useQuery(cardQuery(organizationId));
  const { data: agreement } = useQuery(autoTopUpQuery(organizationId));
  const [changing, setChanging] = useState(false);
  if (!card || !agreement) return null;
  if (!billing.payment_methods.includes("card") && !card.last4) {
    return (
      <Card title="Automatic top-up">
        <p className={classes.quiet}>It charges a saved card, and cards are not set up here. Ask {billing.payment_contact}.</p>
      </Card>
    );
  }
  const state = WORDS[agreement.state];
  return (
    <Card title="Automatic top-up" action={<span data-tone={state.tone}>{state.word}</span>}>
      <SavedCardLine organizationId={organizationId} card={card} />
      <p className={classes.quiet}>{agreement.message}</p>
      {agreement.threshold_microusd === null ? null : <Terms agreement={agreement} />}
      {card.last4 ? (
        <Group gap={8} mt={12}>
          <Button variant="default" onClick={() => setChanging(true)}>
            {agreement.state === "off" ? "Switch on" : "Change"}
          </Button>
          {agreement.state === "off" ? null : <SwitchOff organizationId={organizationId} />}
        </Group>
      ) : null}
      {changing ? (
        <ChangeTerms organizationId={organizationId} agreement={agreement} close={() => setChanging(false)} />
      ) : null}
    </Card>
  );
}

function Terms({ agreement }: { agreement: Agreement }) {
  return (
    <div className={classes.terms}>
      <Facts
        items={[
          ["Below", dollars(agreement.threshold_microusd ?? 0)],
          ["Charges", dollars(agreement.amount_microusd ?? 0)],
          [
            "This month",
            `${dollars(agreement.charged_this_month_microusd)} of at most ${dollars(agreement.monthly_cap_microusd ?? 0)}`,
          ],
        ]}
      />
    </div>
  );
}

function SavedCardLine({ organizationId, card }: { organizationId: string; card: SavedCard }) {
  const [removing, setRemoving] = useState(false);
  const { save, remove } = useCard(organizationId, () => setRemoving(false));
  return (
    <>
      <div className={classes.cardLine}>
        <span>{card.last4 ? <CardName card={card} /> : "No card is saved."}</span>
        {card.last4 ? (
          <Button size="xs" variant="subtle" color="var(--m-bad)" onClick={() => setRemoving(true)}>
            Remove
          </Button>
        ) : null}
        <Button size="xs" variant="default" loading={save.isPending} onClick={() => save.mutate()}>
          {card.last4 ? "Replace" : "Save a card"}
        </Button>
      </div>
      {save.isError ? (
        <p className={classes.refused} role="alert">
          {messageOf(save.error)}
        </p>
      ) : null}
      <Confirm
        opened={removing}
        close={() => setRemoving(false)}
        title="Remove the card"
        action="Remove card"
        confirm={() => remove.mutate(undefined, { onError: failed })}
        busy={remove.isPending}
      >
        It is removed at the payment provider too, and nothing is charged automatically any more.
      </Confirm>
    </>
  );
}

function CardName({ card }: { card: SavedCard }) {
  const brand = (card.brand ?? "card").replace(/^./, (first) => first.toUpperCase());
  const end = `${String(card.expires_month).padStart(2, "0")}/${card.expires_year}`;
  return (
    <>
      <strong>
        {brand} •••• {card.last4}
      </strong>{" "}
      until {end}
    </>
  );
}

function SwitchOff({ organizationId }: { organizationId: string }) {
  const { switchOff } = useAutoTopUp(organizationId);
  return (
    <Button
      variant="subtle"
      color="var(--m-ink-2)"
      loading={switchOff.isPending}
      onClick={() => switchOff.mutate(undefined, { onError: failed })}
    >
      Switch off
    </Button>
  );
}

const BEGIN = { threshold: 20_000_000, amount: 100_000_000, cap: 500_000_000 };

function ChangeTerms({ organizationId, agreement, close }: { organizationId: string; agreement: Agreement; close: () => void }) {
  const [threshold, setThreshold] = useState<number | null>(agreement.threshold_microusd ?? BEGIN.threshold);
  const [amount, setAmount] = useState<number | null>(agreement.amount_microusd ?? BEGIN.amount);
  const [cap, setCap] = useState<number | null>(agreement.monthly_cap_microusd ?? BEGIN.cap);
  const { agree } = useAutoTopUp(organizationId, close);
  const fields = agree.error instanceof Problem ? agree.error.fields() : {};
  const isElsewhere = Object.keys(fields).length > 0;
  return (
    <FormDialog
      opened
      close={close}
      title="Automatic top-up"
      action={`Charge ${dollars(amount ?? 0)} when needed`}
      submit={() =>
        agree.mutate({
          threshold_microusd: threshold ?? 0,
          amount_microusd: amount ?? 0,
          monthly_cap_microusd: cap ?? 0,
        })
      }
      busy={agree.isPending}
      disabled={threshold === null || amount === null || cap === null}
    >
      <MoneyInput
        label="When the credit falls below"
        data-autofocus
        initialMicrousd={threshold}
        change={setThreshold}
        error={fields["threshold_microusd"] ?? (agree.error && !isElsewhere ? messageOf(agree.error) : null)}
      />
      <MoneyInput label="Charge the card" initialMicrousd={amount} change={setAmount} error={fields["amount_microusd"]} />
      <MoneyInput
        label="At most in a calendar month"
        initialMicrousd={cap}
        change={setCap}
        error={fields["monthly_cap_microusd"]}
      />
    </FormDialog>
  );
}
