const KEY = "moorage-project";

/** Where somebody comes back to. Storage can be switched off; then it is the first project. */
export function rememberProject(projectId: string): void {
  try {
    localStorage.setItem(KEY, projectId);
  } catch {
    return;
  }
}

export function lastProject(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
