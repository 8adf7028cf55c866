import { useQuery } from "@tanstack/react-query";

import { templatesQuery } from "@/api/queries";
import { dollars } from "@/components/Money";
import { ErrorNotice, Waiting } from "@/components/Patterns";

import classes from "./Start.module.css";

interface GalleryProps {
  /** The one that is chosen. */
  template: string | null;
  choose: (template: { name: string; example: string }) => void;
}

/** The servers that a model can be started with. */
export function Gallery({ template, choose }: GalleryProps) {
  const { data, error } = useQuery(templatesQuery);
  if (error) return <ErrorNotice error={error} />;
  if (!data) return <Waiting rows={2} height={52} />;
  return (
    <div className={classes.gallery} role="radiogroup" aria-label="Template">
      {data.map((one) => (
        <label key={one.name} className={classes.template} data-checked={one.name === template || undefined}>
          <input
            type="radio"
            name="template"
            checked={one.name === template}
            onChange={() => choose(one)}
            aria-label={`${one.title}: ${one.summary}`}
          />
          <strong>{one.title}</strong>
          <FromPrice microusd={one.price_per_hour_microusd} />
          <span className={classes.templateSummary}>{one.summary}</span>
        </label>
      ))}
    </div>
  );
}

function FromPrice({ microusd }: { microusd: number | null }) {
  return <span className={classes.templatePrice}>{microusd === null ? null : `from ${dollars(microusd)}/h`}</span>;
}
