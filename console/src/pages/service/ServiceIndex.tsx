import { Button } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Navigate } from "@tanstack/react-router";
import { Plus } from "lucide-react";

import { paths } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { containersQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";

import classes from "./Service.module.css";

/** No container is chosen: on a wide screen the first one is, and where there is none, the way to it is shown. */
export function ServiceIndex() {
  const { project } = useProject();
  const { data: containers } = useQuery(containersQuery(project.id));
  const isWide = useMediaQuery("(min-width: 768px)", undefined, { getInitialValueInEffect: false });
  const first = containers?.[0];
  if (first && isWide) return <Navigate to={paths.container(project.id, first.id)} replace />;
  if (!containers || first) return null;
  return (
    <section className={classes.begin}>
      <h2>Run your first container</h2>
      <p>Give it an image and an instance type; get an endpoint URL that any OpenAI client can call.</p>
      <Button component={LinkTo} to={paths.create(project.id)} leftSection={<Plus size={16} strokeWidth={1.5} />}>
        Create a container
      </Button>
    </section>
  );
}
