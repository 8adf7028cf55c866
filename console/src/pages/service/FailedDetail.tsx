import { Button } from "@mantine/core";
import { RotateCw } from "lucide-react";

import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { Verdict } from "@/components/Verdict";
import { LastLines } from "@/containers/LastLines";
import { useContainerAction, useFix } from "@/containers/queries";

/** Why it failed, what to do, and the lines that prove it. */
export function FailedDetail({ container }: { container: Container }) {
  const action = useContainerAction(container.id);
  const fix = useFix(container);
  return (
    <>
      <Verdict
        message={container.message ?? "It failed."}
        reason={container.reason}
        fix={container.fix}
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
          </>
        }
      />
      <LastLines container={container} />
    </>
  );
}
