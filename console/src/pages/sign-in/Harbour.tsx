import classes from "./SignIn.module.css";

const POSTS = [
  { x: 68, top: 88 },
  { x: 184, top: 40 },
  { x: 300, top: 112 },
  { x: 416, top: 64 },
  { x: 532, top: 24 },
];
const WATER = 264;
const RIPPLES: [x: number, y: number, length: number][] = [
  [0, 4, 32], [428, 4, 54], [544, 4, 96], [262, 18, 62], [366, 18, 220], [292, 34, 34], [0, 36, 12], [626, 36, 14],
  [124, 48, 28], [188, 48, 220], [316, 64, 324], [208, 80, 106], [492, 80, 96], [208, 94, 210], [596, 94, 44],
  [114, 108, 56], [412, 110, 110], [450, 124, 40], [178, 138, 44], [314, 138, 104], [398, 154, 30], [532, 154, 90],
  [120, 168, 108],
];

/** Posts, ropes between them, and the water below: lines only. */
export function Harbour() {
  return (
    <svg className={classes.harbour} viewBox="0 0 640 460" preserveAspectRatio="xMidYMid slice" aria-hidden>
      <defs>
        <linearGradient id="water" x1="0" x2="0" y1="0" y2="1">
          <stop offset="0" stopColor="#050c1c" stopOpacity="0.5" />
          <stop offset="1" stopColor="#050c1c" stopOpacity="0" />
        </linearGradient>
      </defs>
      <rect x="0" y={WATER} width="640" height="196" fill="url(#water)" />
      {[0.42, 0.68, 1].map((slack, index) => (
        <path key={slack} d={ropes(slack)} fill="none" stroke="#82aeff" strokeWidth={1.5 - index * 0.4} opacity={0.9 - index * 0.32} />
      ))}
      {POSTS.map(({ x, top }) => (
        <g key={x}>
          <rect x={x - 4} y={top} width="8" height={WATER - top} rx="4" fill="#dce8ff" />
          <rect x={x - 4} y={WATER + 6} width="8" height={(WATER - top) * 0.52} rx="4" fill="#dce8ff" opacity="0.1" />
        </g>
      ))}
      {RIPPLES.map(([x, y, length]) => (
        <path key={`${x} ${y}`} d={`M${x} ${WATER + y}h${length}`} stroke="#5b93ff" strokeWidth="1.5" opacity={0.5 - y / 420} />
      ))}
    </svg>
  );
}

/** A rope hangs deeper the more slack it has; the outermost ones leave the picture. */
function ropes(slack: number): string {
  const ends = [{ x: -48, top: 60 }, ...POSTS, { x: 700, top: 80 }];
  return ends
    .slice(1)
    .map((end, index) => {
      const from = ends[index]!;
      const [y1, y2] = [from.top + 20, end.top + 20];
      const depth = Math.max(y1, y2) + 70 * slack + 24;
      return `M${from.x} ${y1}C${from.x + 34} ${depth} ${end.x - 34} ${depth} ${end.x} ${y2}`;
    })
    .join("");
}
