/** The marks of the providers, in the colours that they ask for. */

export function GoogleMark() {
  return (
    <svg width="18" height="18" viewBox="0 0 48 48" fill="none" strokeWidth="9" aria-hidden>
      <path stroke="#EA4335" d="M9.4 15.6A17 17 0 0 1 36.6 12.6" />
      <path stroke="#FBBC05" d="M9.4 15.6a17 17 0 0 0 0 16.8" />
      <path stroke="#34A853" d="M9.4 32.4a17 17 0 0 0 25.6 4.5" />
      <path stroke="#4285F4" d="M35 36.9A17 17 0 0 0 41 24.2H24" />
    </svg>
  );
}

export function GitHubMark() {
  return (
    <svg width="18" height="18" viewBox="0 0 16 16" fill="currentColor" aria-hidden>
      <path d="M8 .2a8 8 0 0 0-2.53 15.59c.4.07.55-.17.55-.38v-1.34c-2.23.48-2.7-1.07-2.7-1.07-.36-.93-.89-1.18-.89-1.18-.73-.5.05-.49.05-.49.8.06 1.23.83 1.23.83.72 1.22 1.87.87 2.33.66.07-.52.28-.87.5-1.07-1.77-.2-3.64-.89-3.64-3.95 0-.87.31-1.59.82-2.15-.08-.2-.35-1.01.08-2.11 0 0 .67-.22 2.2.82a7.6 7.6 0 0 1 4 0c1.53-1.04 2.2-.82 2.2-.82.44 1.1.16 1.92.08 2.11.51.56.82 1.28.82 2.15 0 3.07-1.87 3.75-3.65 3.95.29.25.54.73.54 1.48v2.2c0 .21.15.46.55.38A8 8 0 0 0 8 .2Z" />
    </svg>
  );
}
