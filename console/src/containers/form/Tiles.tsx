import { Button } from "@mantine/core";
import { ChevronDown, ChevronUp } from "lucide-react";
import { useState } from "react";

import type { InstanceType } from "@/api/queries";

import classes from "./Form.module.css";
import { Tile } from "./Tile";

interface TilesProps {
  types: InstanceType[];
  /** Sentences by the names of types that what is to run does not fit on. */
  obstacles?: ReadonlyMap<string, string> | undefined;
  chosen: string;
  choose: (name: string) => void;
}

/** What can be had, or could once it is free, first what has a GPU; what no machine offers now is folded away below. */
export function Tiles({ types, obstacles, chosen, choose }: TilesProps) {
  const [unfolded, setUnfolded] = useState(false);
  const folded = types.filter((one) => one.capacity === 0 && one.name !== chosen);
  const shown = types.filter((one) => !folded.includes(one));
  const groups = (
    [
      ["With a GPU", shown.filter((one) => one.gpu_model !== null)],
      ["Without a GPU", shown.filter((one) => one.gpu_model === null)],
    ] as [string, InstanceType[]][]
  ).filter(([, found]) => found.length > 0);
  const tile = (type: InstanceType) => (
    <Tile
      key={type.name}
      type={type}
      obstacle={obstacles?.get(type.name)}
      checked={chosen === type.name}
      choose={() => choose(type.name)}
    />
  );
  return (
    <>
      <div className={classes.tileGroups} role="radiogroup" aria-label="Instance type">
        {groups.map(([title, found]) => (
          <div key={title}>
            {groups.length > 1 ? <h4 className={classes.tilesTitle}>{title}</h4> : null}
            <div className={classes.tiles}>{found.map(tile)}</div>
          </div>
        ))}
      </div>
      {folded.length > 0 ? (
        <div>
          <Button
            variant="subtle"
            color="var(--m-ink-2)"
            size="xs"
            className={classes.fold}
            aria-expanded={unfolded}
            rightSection={unfolded ? <ChevronUp size={14} strokeWidth={1.5} /> : <ChevronDown size={14} strokeWidth={1.5} />}
            onClick={() => setUnfolded(!unfolded)}
          >
            {unfolded ? "Hide" : "Show"} {folded.length === 1 ? "1 type" : `${folded.length} types`} that no machine offers now
          </Button>
        </div>
      ) : null}
      {unfolded ? <div className={classes.tiles}>{folded.map(tile)}</div> : null}
    </>
  );
}
