import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { useProject } from "@/addresses/useProject";
import type { Container } from "@/api/queries";
import { Confirm } from "@/components/Confirm";
import { Card } from "@/components/Page";
import { ErrorNotice } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { binarySize } from "@/components/sizes";
import { useNow } from "@/components/useNow";

import { canBeDeleted, holds, lastUsed, noneYet } from "./caches";
import { type Cache, cachesQuery, useDeleteCache } from "./queries";

/** What it keeps on its machines between starts. Nothing, where it has no cache and left none. */
export function CachesCard({ container }: { container: Container }) {
  const { project } = useProject();
  const { data: caches = [], error, isPending } = useQuery(cachesQuery(project.organization_id, container));
  const now = useNow(30_000);
  if (error) return <ErrorNotice error={error} />;
  if (isPending || (caches.length === 0 && !container.cache)) return null;
  const isUsed = caches.some((one) => one.in_use);
  return (
    <Card title="Caches" hint={isUsed ? "One that is in use can be deleted once the container is stopped." : undefined} flush>
      <Table
        rows={caches}
        rowKey={(row) => row.id}
        empty={noneYet(container)}
        columns={[
          { head: "Machine", cell: (row) => row.node },
          { head: "Holds", cell: (row) => <span data-figures>{holds(row)}</span> },
          { head: "Compiled", wide: true, right: true, cell: (row) => compiled(row) },
          { head: "Last used", wide: true, right: true, cell: (row) => lastUsed(row, now) },
          { head: "Actions", right: true, cell: (row) => <Delete organizationId={project.organization_id} cache={row} /> },
        ]}
      />
    </Card>
  );
}

function compiled({ compiled_bytes: bytes }: Cache): string {
  return bytes > 0 ? binarySize(bytes) : "–";
}

function Delete({ organizationId, cache }: { organizationId: string; cache: Cache }) {
  const [asking, setAsking] = useState(false);
  const close = () => setAsking(false);
  const remove = useDeleteCache(organizationId, cache, close);
  if (!canBeDeleted(cache)) return null;
  return (
    <>
      <Button
        variant="subtle"
        color="var(--m-bad)"
        size="xs"
        aria-label={`Delete the cache on ${cache.node}`}
        onClick={() => setAsking(true)}
      >
        Delete
      </Button>
      <Confirm
        opened={asking}
        close={close}
        title={`Delete the cache on ${cache.node}`}
        action="Delete cache"
        confirm={() => remove.mutate()}
        busy={remove.isPending}
      >
        {cache.size_bytes > 0 ? `This deletes ${binarySize(cache.size_bytes)}. ` : ""}The next start of {cache.container_name} on that machine
        downloads and compiles again. Its settings and its caches on other machines stay.
      </Confirm>
    </>
  );
}
