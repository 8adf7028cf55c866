import { UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { Origin } from "./origin";
import { type Template, templatesQuery } from "./queries";
import classes from "./Start.module.css";

interface ExamplesProps {
  origin: Origin;
  choose: (model: string) => void;
}

/** While no model is named: what one looks like, one of each kind. */
export function Examples({ origin, choose }: ExamplesProps) {
  const templates = useQuery(templatesQuery).data ?? [];
  const shown = templates.filter((one, at) =>
    origin.kind === "template" ? one.name === origin.template : templates.findIndex((other) => isLike(one, other)) === at,
  );
  return (
    <div className={classes.fits}>
      <div className={classes.fitsHead}>
        <h3>Name a model to see where it fits and what it costs</h3>
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

function isLike(one: Template, other: Template): boolean {
  return one.kinds.join() === other.kinds.join() && one.formats.join() === other.formats.join();
}
