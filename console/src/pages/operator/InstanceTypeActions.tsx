import { Menu } from "@mantine/core";
import { Eye, EyeOff, Tag, Trash2 } from "lucide-react";
import { useState } from "react";

import { messageOf } from "@/api/problem";
import type { InstanceType } from "@/api/queries";
import { ActionMenu } from "@/components/ActionMenu";
import { Confirm } from "@/components/Confirm";
import { FormDialog } from "@/components/FormDialog";
import { dollars } from "@/components/Money";
import { MoneyInput } from "@/components/MoneyInput";
import { failed } from "@/components/toasts";

import { decisions, useDecision } from "./queries";

const ICON = { size: 16, strokeWidth: 1.5 };
const PRICE_DIGITS = 6;

export function InstanceTypeActions({ type }: { type: InstanceType }) {
  const [asking, setAsking] = useState<"price" | "remove" | null>(null);
  const close = () => setAsking(null);
  const offer = useDecision(
    (enabled: boolean) => decisions.changeType(type, { enabled }),
    type.enabled ? `${type.name} is no longer offered. What uses it goes on.` : `${type.name} is offered again.`,
    close,
  );
  const remove = useDecision(() => decisions.removeType(type), `${type.name} is deleted.`, close);
  return (
    <>
      <ActionMenu label={`Actions of ${type.name}`} busy={offer.isPending} inDialog={asking !== null}>
        <Menu.Item leftSection={<Tag {...ICON} />} onClick={() => setAsking("price")}>
          Change price
        </Menu.Item>
        <Menu.Item
          leftSection={type.enabled ? <EyeOff {...ICON} /> : <Eye {...ICON} />}
          onClick={() => offer.mutate(!type.enabled, { onError: failed })}
        >
          {type.enabled ? "Stop offering" : "Offer"}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item color="var(--m-bad)" leftSection={<Trash2 {...ICON} />} onClick={() => setAsking("remove")}>
          Delete
        </Menu.Item>
      </ActionMenu>
      {asking === "price" ? <ChangePrice type={type} close={close} /> : null}
      <Confirm
        opened={asking === "remove"}
        close={close}
        title={`Delete ${type.name}`}
        action="Delete"
        confirm={() => remove.mutate(undefined, { onError: failed })}
        busy={remove.isPending}
      >
        Only a type that nobody ever used can be deleted. One that was used can stop being offered.
      </Confirm>
    </>
  );
}

function ChangePrice({ type, close }: { type: InstanceType; close: () => void }) {
  const [price, setPrice] = useState<number | null>(type.price_per_hour_microusd);
  const change = useDecision(
    () => decisions.changeType(type, { price_per_hour_microusd: price }),
    `${type.name} costs ${dollars(price ?? 0)}/h from now on.`,
    close,
  );
  return (
    <FormDialog
      opened
      close={close}
      title={`Price of ${type.name}`}
      action={`Set ${dollars(price ?? 0)}/h`}
      submit={() => change.mutate(undefined)}
      busy={change.isPending}
      disabled={!price || price === type.price_per_hour_microusd}
    >
      <p>Hours that are paid stay as they are. The next hour of every replica costs the new price.</p>
      <MoneyInput
        label="Price per hour in USD"
        data-autofocus
        digits={PRICE_DIGITS}
        initialMicrousd={price}
        change={setPrice}
        error={change.error ? messageOf(change.error) : null}
      />
    </FormDialog>
  );
}
