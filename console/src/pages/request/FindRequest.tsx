import { useQuery } from "@tanstack/react-query";
import { Navigate, useParams } from "@tanstack/react-router";

import { Waiting } from "@/components/Patterns";
import { receiptQuery } from "@/containers/requests/queries";
import { paths } from "@/addresses/paths";

import { NoReceipt } from "./NoReceipt";
import { placeOf } from "./place";

/** What a request's id alone leads to. */
export function FindRequest() {
  const { requestId } = useParams({ strict: false }) as { requestId: string };
  const { data, error, refetch } = useQuery(receiptQuery(requestId));
  if (data) return <Navigate to={paths.receipt(data.project_id, placeOf(data), requestId)} replace />;
  return error ? <NoReceipt requestId={requestId} error={error} retry={refetch} /> : <Waiting />;
}
