import { Button, Radio, Stack } from "@mantine/core";
import { useState } from "react";

import type { Schemas } from "@/api/client";
import type { Container } from "@/api/queries";
import { isStopped } from "@/components/state";
import type { StagedDraft } from "@/containers/queries";

import { useApplyDraft, useDiscardDraft } from "./queries";
import classes from "./Settings.module.css";
import { FIRST_SHARE, waysOf } from "./ways";

interface ApplyProps {
  container: Container;
  draft: StagedDraft;
  edit?: (() => void) | undefined;
}

/** How the changes take over, and that they do; or that they are edited or dropped. */
export function Apply({ container, draft, edit }: ApplyProps) {
  const [strategy, choose] = useState<Schemas["Strategy"]>("rolling");
  const apply = useApplyDraft(container);
  const discard = useDiscardDraft(container);
  const isResting = isStopped(container.state);
  const how = isResting ? "replace" : strategy;
  return (
    <>
      {isResting ? (
        <p className={classes.quiet}>Applying starts it with these settings.</p>
      ) : (
        <Radio.Group label="How to apply them" value={strategy} onChange={(value) => choose(value as Schemas["Strategy"])}>
          <Stack gap={12} mt={8} className={classes.ways}>
            {waysOf(draft, container).map((way) => (
              <Radio key={way.strategy} value={way.strategy} label={way.label} description={way.meaning} />
            ))}
          </Stack>
        </Radio.Group>
      )}
      <div className={classes.actions}>
        <Button
          loading={apply.isPending}
          onClick={() => apply.mutate({ strategy: how, ...(how === "canary" ? { share: FIRST_SHARE } : {}) })}
        >
          {isResting ? "Apply and start" : "Apply"}
        </Button>
        {edit ? (
          <Button variant="default" onClick={edit}>
            Edit
          </Button>
        ) : null}
        <Button variant="subtle" color="var(--m-bad)" loading={discard.isPending} onClick={() => discard.mutate()}>
          Discard
        </Button>
      </div>
    </>
  );
}
