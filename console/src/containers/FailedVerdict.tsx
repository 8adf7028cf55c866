import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { RotateCw } from "lucide-react";

import { aboutReason } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { type Container, instanceTypesQuery } from "@/api/queries";
import { HandbookLink } from "@/components/HandbookLink";
import { LinkTo } from "@/components/LinkTo";
import { Verdict } from "@/components/Verdict";

import { fixInWords } from "./fixWords";
import { useContainerAction, useFix } from "./queries";

/** Why it failed, and what can be done about it at once. */
export function FailedVerdict({ container }: { container: Container }) {
  const action = useContainerAction(container.id);
  const fix = useFix(container);
  const types = useQuery(instanceTypesQuery).data ?? [];
  return (
    <Verdict
      message={container.message ?? "It failed."}
      reason={container.reason}
      fix={container.fix}
      change={container.fix ? fixInWords(container.fix, types) : undefined}
      actions={
        <>
          {container.fix ? (
            <Button loading={fix.isPending} onClick={() => fix.mutate()}>
              Apply and start
            </Button>
          ) : null}
          <Button
            component={LinkTo}
            to={paths.dashboard(container.project_id, container.id, "settings")}
            variant={container.fix ? "default" : "filled"}
          >
            Edit settings
          </Button>
          <Button
            variant="default"
            leftSection={<RotateCw size={16} strokeWidth={1.5} />}
            loading={action.isPending}
            onClick={() => action.mutate("start")}
          >
            Start unchanged
          </Button>
          {container.reason ? <HandbookLink to={aboutReason(container.reason)}>What this means</HandbookLink> : null}
        </>
      }
    />
  );
}
