import { UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { templatesQuery } from "@/api/queries";
import { oneOfEachKind } from "@/containers/templates";

import type { Origin } from "./origin";
import classes from "./Start.module.css";

interface ExamplesProps {
  origin: Origin;
  choose: (model: string) => void;
}

/** While no model is named: what one looks like, one of each kind. */
export function Examples({ origin, choose }: ExamplesProps) {
  const templates = useQuery(templatesQuery).data ?? [];
  const shown = origin.kind === "template" ? templates.filter((one) => one.name === origin.template) : oneOfEachKind(templates);
  return (
    <div className={classes.fits}>
      <div className={classes.fitsHead}>
        <h3>Choose a model to see where it fits and what it costs, or try one of these</h3>
      </div>
      <ul className={classes.examples} aria-label="Examples">
        {shown.map(({ name, title, summary, example }) => (
          <li key={name}>
            <UnstyledButton className={classes.example} onClick={() => choose(example)}>
              <code>{example}</code>
              <span>
                {title}: {summary}
              </span>
            </UnstyledButton>
          </li>
        ))}
      </ul>
    </div>
  );
}
