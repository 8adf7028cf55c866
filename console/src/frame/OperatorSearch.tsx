import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { operatorPages } from "@/addresses/operatorPages";
import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";

import { found, type Target } from "./found";
import { isSearched, targetOf } from "./operatorTargets";
import { PaletteDialog, PaletteList } from "./PaletteList";

/** A word is often finished within it, so that not every letter is asked for. */
const TYPING_MS = 150;

const PAGES: Target[] = operatorPages.map(({ page, label }) => ({ label, kind: "Page", open: { to: paths.operator(page) } }));

/** Anything of the whole installation, by a part of its name or by its id. */
export function OperatorSearch() {
  return <PaletteDialog>{(close) => <Search close={close} />}</PaletteDialog>;
}

function Search({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [asked] = useDebouncedValue(text.trim(), TYPING_MS);
  const { data, error, isFetching } = useQuery({
    queryKey: ["operator", "search", asked],
    queryFn: () => body(api.GET("/api/v1/operator/search", { params: { query: { q: asked } } })),
    enabled: isSearched(asked),
  });
  const isCurrent = asked === text.trim();
  const items = isCurrent && isSearched(asked) ? (data?.items ?? []) : [];
  const note = error && isCurrent ? "The search did not answer. Type on to try again." : isFetching || !isCurrent ? "Searching …" : undefined;
  return (
    <PaletteList
      label="Name or id of an organization, person, container or machine, or a request's id"
      placeholder="Organization, person, container, machine, request id"
      text={text}
      setText={setText}
      shown={[...found(PAGES, text), ...items.map(targetOf)]}
      note={note}
      close={close}
    />
  );
}
