import { useLocation } from "@tanstack/react-router";

import { operatorPages } from "@/addresses/operatorPages";
import { paths } from "@/addresses/paths";

import { Shell } from "./Frame";
import { OperatorSearch } from "./OperatorSearch";
import { PlainTopBar } from "./PlainTopBar";
import { TabRow } from "./TabRow";

/** The area of whoever runs the installation. */
export function OperatorFrame() {
  const { pathname } = useLocation();
  return (
    <Shell top={<PlainTopBar title="Operator" search={<OperatorSearch />} />}>
      <TabRow
        label="Operator"
        tabs={operatorPages.map(({ page, label }) => {
          const to = paths.operator(page);
          return { to, label, active: pathname.startsWith(to) };
        })}
      />
    </Shell>
  );
}
