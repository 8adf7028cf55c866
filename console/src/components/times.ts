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

/** "14:27" today, "12 Nov 14:27" before: of what is told in order. */
export function dateAndTime(iso: string, now: Date): string {
  const time = new Date(iso);
  const hours = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return time.toDateString() === now.toDateString() ? hours : `${day.format(time)} ${hours}`;
}

/** "today 22:10", "Thu 15:08", "12 Dec". A weekday is never that of today: nobody would take it for the next one. */
export function dayAndTime(time: Date, now: Date): string {
  const hours = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (time.toDateString() === now.toDateString()) return `today ${hours}`;
  const days = (time.getTime() - now.getTime()) / 86_400_000;
  if (days < 6) return `${time.toLocaleDateString("en-GB", { weekday: "short" })} ${hours}`;
  const year = time.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return time.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
}

/** "Thursday, 26 November 2026 at 15:08 UTC": nothing is left to be guessed. */
export function wholeTime(iso: string): string {
  return new Date(iso).toLocaleString("en-GB", {
    weekday: "long",
    day: "numeric",
    month: "long",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    timeZoneName: "short",
  });
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

/** "Thu 26 Nov 2026, 15:53": for what money or a decision depends on, where a weekday alone could be today's. */
export function fullMoment(iso: string): string {
  const time = new Date(iso);
  const date = time.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric" });
  return `${date.replace(",", "")}, ${time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
}
