import { Menu, TextInput } from "@mantine/core";
import { Ban, Gift, Play } from "lucide-react";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { ActionMenu } from "@/components/ActionMenu";
import { FormDialog } from "@/components/FormDialog";
import { dollars } from "@/components/Money";
import { MoneyInput } from "@/components/MoneyInput";
import { failed } from "@/components/toasts";

import { decisions, type NamedOrganization, useDecision } from "./queries";

const ICON = { size: 16, strokeWidth: 1.5 };

export function OrganizationActions({ organization }: { organization: NamedOrganization }) {
  const [asking, setAsking] = useState<"credit" | "suspend" | null>(null);
  const close = () => setAsking(null);
  const resume = useDecision(() => decisions.resume(organization), `${organization.name} works again.`, close);
  if (organization.deleted_at) return null;
  return (
    <>
      <ActionMenu label={`Actions of ${organization.name}`} busy={resume.isPending} inDialog={asking !== null}>
        <Menu.Item leftSection={<Gift {...ICON} />} onClick={() => setAsking("credit")}>
          Grant credit
        </Menu.Item>
        <Menu.Divider />
        {organization.suspended_at ? (
          <Menu.Item leftSection={<Play {...ICON} />} onClick={() => resume.mutate(undefined, { onError: failed })}>
            Resume
          </Menu.Item>
        ) : (
          <Menu.Item color="var(--m-bad)" leftSection={<Ban {...ICON} />} onClick={() => setAsking("suspend")}>
            Suspend
          </Menu.Item>
        )}
      </ActionMenu>
      {asking === "credit" ? <GrantCredit organization={organization} close={close} /> : null}
      {asking === "suspend" ? <Suspend organization={organization} close={close} /> : null}
    </>
  );
}

interface DialogProps {
  organization: NamedOrganization;
  close: () => void;
}

function GrantCredit({ organization, close }: DialogProps) {
  const [amount, setAmount] = useState<number | null>(null);
  const [reason, setReason] = useState("");
  const grant = useDecision(
    () => decisions.giveCredit({ organization_id: organization.id, amount_microusd: amount ?? 0, reason: reason.trim() }),
    `${organization.name} has ${dollars(amount ?? 0)} more.`,
    close,
  );
  const fields = grant.error instanceof Problem ? grant.error.fields() : {};
  return (
    <FormDialog
      opened
      close={close}
      title={`Grant credit to ${organization.name}`}
      action={amount ? `Grant ${dollars(amount)}` : "Grant credit"}
      submit={() => grant.mutate(undefined)}
      busy={grant.isPending}
      disabled={!amount || reason.trim().length < 3}
    >
      <MoneyInput
        label="Amount in USD"
        data-autofocus
        change={setAmount}
        error={fields["amount_microusd"] ?? (grant.error && !fields["reason"] ? messageOf(grant.error) : null)}
      />
      <TextInput
        label="Reason"
        description="The organization reads it beside the entry."
        value={reason}
        maxLength={300}
        onChange={(event) => setReason(event.currentTarget.value)}
        error={fields["reason"]}
      />
    </FormDialog>
  );
}

function Suspend({ organization, close }: DialogProps) {
  const [reason, setReason] = useState("");
  const suspend = useDecision(
    () => decisions.suspend(organization, reason.trim()),
    `${organization.name} is suspended.`,
    close,
  );
  return (
    <FormDialog
      opened
      close={close}
      destructive
      title={`Suspend ${organization.name}`}
      action="Suspend"
      submit={() => suspend.mutate(undefined)}
      busy={suspend.isPending}
      disabled={!reason.trim()}
    >
      <p>Its containers stop, and nothing of it starts until you resume it. Its data and its balance stay.</p>
      <TextInput
        label="Reason"
        description="Stands in the organization's audit log."
        data-autofocus
        value={reason}
        maxLength={500}
        onChange={(event) => setReason(event.currentTarget.value)}
        error={suspend.error ? messageOf(suspend.error) : null}
      />
    </FormDialog>
  );
}
