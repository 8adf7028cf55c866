/** Times are shown in the reader's own zone. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Made once: a log asks them of every line that scrolls by. */
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export function clockTime(iso: string, withMs = false): string {
  const time = new Date(iso);
  const text = clock.format(time);
  return withMs ? `${text}.${String(time.getMilliseconds()).padStart(3, "0")}` : text;
}

/** "14:03:11.482" today, "12 Nov 14:03:11" before. */
export function lineTime(iso: string): string {
  const time = new Date(iso);
  const isToday = time.toDateString() === new Date().toDateString();
  return isToday ? clockTime(iso, true) : `${day.format(time)} ${clock.format(time)}`;
}

/** "14:27" today, "12 Nov" before. */
export function shortTime(iso: string, now: Date): string {
  const time = new Date(iso);
  return time.toDateString() === now.toDateString()
    ? time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })
    : time.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

/** "today 22:10", "Thu 15:08", "12 Dec". */
export function dayAndTime(time: Date, now: Date): string {
  const hours = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (time.toDateString() === now.toDateString()) return `today ${hours}`;
  const days = (time.getTime() - now.getTime()) / 86_400_000;
  if (days < 7) return `${time.toLocaleDateString("en-GB", { weekday: "short" })} ${hours}`;
  const year = time.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return time.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
}

/** "6 d 4 h", "2 h 11 min", "42 s". */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (hours >= 24) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  if (hours > 0) return `${hours} h ${minutes % 60} min`;
  if (minutes > 0) return `${minutes} min`;
  return `${seconds} s`;
}

/** "41 s", "3 min 40 s", "1 h 5 min": of what is not known to the second. */
export function roughly(seconds: number): string {
  const whole = Math.max(1, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
}

export function since(iso: string, now: Date): string {
  return duration(now.getTime() - new Date(iso).getTime());
}

/** "15 Nov", with the year where it is another one. */
export function longDate(iso: string, now: Date): string {
  const time = new Date(iso);
  const year = time.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return time.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
}
