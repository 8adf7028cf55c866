import { Page } from "@/components/Page";
import { Empty, ErrorNotice } from "@/components/Patterns";
import { isMissing, mayAppear } from "@/containers/requests/queries";

/** Of a request that is not stored yet, was never kept, or is somebody else's. */
export function NoReceipt({ requestId, error, retry }: { requestId: string; error: unknown; retry: () => void }) {
  return (
    <Page title="Request">
      {isMissing(error) ? (
        <div role="status">
          <Empty command={`moor explain ${requestId}`}>
            {mayAppear(requestId)
              ? "Its receipt is written a few seconds after it has ended, and shows here by itself."
              : "There is no receipt of this request that you can see. Receipts are kept for some days: of a busy container all failed requests have one, but not all others."}
          </Empty>
        </div>
      ) : (
        <ErrorNotice error={error} retry={retry} />
      )}
    </Page>
  );
}
