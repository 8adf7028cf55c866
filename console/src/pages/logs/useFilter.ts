import { useDebouncedValue } from "@mantine/hooks";
import { useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";

import { type Filter, filterIn, searchOf } from "./filter";

const TYPING_PAUSE_MS = 300;

/** What is wanted, which the address says too: a link leads to the same lines, and so does a reload. */
export function useFilter() {
  const { pathname, search } = useLocation();
  const navigate = useNavigate();
  const [wanted, setWanted] = useState<Filter>(() => filterIn(search, Date.now()));
  const [text] = useDebouncedValue(wanted.text, TYPING_PAUSE_MS);
  const [exclude] = useDebouncedValue(wanted.exclude, TYPING_PAUSE_MS);
  const filter = useMemo(() => ({ ...wanted, text: text.trim(), exclude: exclude.trim() }), [wanted, text, exclude]);
  const ours = JSON.stringify(searchOf(filter));
  const theirs = JSON.stringify(searchOf(filterIn(search, 0)));
  const written = useRef(ours);
  useEffect(() => {
    if (ours === written.current) return;
    written.current = ours;
    void navigate({ to: pathname, search: JSON.parse(ours) as Record<string, string>, replace: true });
  }, [ours, pathname, navigate]);
  // Somebody followed a link to other lines while this page was open.
  useEffect(() => {
    if (theirs === written.current) return;
    written.current = theirs;
    setWanted(filterIn(JSON.parse(theirs) as Record<string, string>, Date.now()));
  }, [theirs]);
  return { wanted, setWanted, filter };
}
