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

/** What can be had, or could once it is free; what no machine here holds is folded away below. */
export function Tiles({ types, obstacles, chosen, choose }: TilesProps) {
  const [unfolded, setUnfolded] = useState(false);
  const nobodys = types.filter((one) => one.capacity === 0 && one.name !== chosen);
  const shown = types.filter((one) => !nobodys.includes(one));
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
      <div className={classes.tiles} role="radiogroup" aria-label="Instance type">
        {shown.map(tile)}
      </div>
      {nobodys.length > 0 ? (
        <div>
          <Button
            variant="subtle"
            color="var(--m-ink-2)"
            size="xs"
            aria-expanded={unfolded}
            rightSection={unfolded ? <ChevronUp size={14} strokeWidth={1.5} /> : <ChevronDown size={14} strokeWidth={1.5} />}
            onClick={() => setUnfolded(!unfolded)}
          >
            {nobodys.length === 1 ? "1 type that" : `${nobodys.length} types that`} no machine here has
          </Button>
        </div>
      ) : null}
      {unfolded ? <div className={classes.tiles}>{nobodys.map(tile)}</div> : null}
    </>
  );
}
