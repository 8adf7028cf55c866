import { useLocation, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";

import { searchOfSpan, type Span, spanIn } from "./range";

/** Which time the charts show, in the address: a link shows the same. */
export function useSpan(): [span: Span, change: (span: Span) => void] {
  const { pathname, search } = useLocation();
  const navigate = useNavigate();
  const { seconds, until } = spanIn(search);
  // The same object while it says the same, for whatever is read by it.
  const span = useMemo(() => ({ seconds, until }), [seconds, until]);
  return [span, (next) => void navigate({ to: pathname, search: searchOfSpan(next), replace: true })];
}
