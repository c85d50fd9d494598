// Colours for tokens and heat maps. Light to dark along one hue says "more"; blue against orange
// says "below and above", which people who see red and green alike still tell apart. The number is
// always there as well: on focus, on hover, and in the panel.

const BLUE = [33, 102, 172];
const ORANGE = [217, 95, 14];

export const LENSES = [
  { name: "log_probs", label: "log-prob", about: "how sure the sampler was", low: true },
  { name: "entropies", label: "entropy", about: "how open the choice was", middle: 0 },
  { name: "values", label: "value", about: "what the critic expected", middle: 0 },
  { name: "advantages", label: "advantage", about: "worse or better than expected", middle: 0 },
  { name: "true_advantages", label: "true advantage", about: "of the turn, by branches", middle: 0 },
  { name: "ratios", label: "ratio (importance weight)", about: "trainer over sampler", middle: 1 },
];

// Nine of ten tokens lie within it: a single extreme one does not pale all others.
function usual(sizes) {
  const sorted = Float64Array.from(sizes).sort();
  return sorted[Math.floor(0.9 * (sorted.length - 1))] || sorted.at(-1) || 1;
}

// Returns a function from a number to a colour; full strength is what one in ten tokens has.
export function scale(lens, numbers) {
  const known = numbers.filter((value) => Number.isFinite(value));
  if (!known.length) return () => null;
  if (lens.low) {
    const span = usual(known.map((value) => Math.max(0, -value)));
    return (value) => paint(BLUE, Math.max(0, -value) / span);
  }
  const span = usual(known.map((value) => Math.abs(value - lens.middle)));
  return (value) => {
    const distance = (value - lens.middle) / span;
    return paint(distance < 0 ? ORANGE : BLUE, Math.abs(distance));
  };
}

export function paint(rgb, strength) {
  if (!Number.isFinite(strength)) return null;
  const alpha = 0.06 + 0.64 * Math.min(1, Math.max(0, strength));
  return `rgba(${rgb.join(",")},${alpha.toFixed(3)})`;
}

export const heat = (share) => paint(BLUE, share);

// How the line of a run looks: a colour of Okabe and Ito, whom people with any colour vision can
// read (the style has them, for light and for dark), and dashes, which tell the runs apart as well.
const DASHES = ["", "6 3", "2 2", "8 3 2 3", "1 3", "10 4"];

export function lineOf(run) {
  const at = run % DASHES.length;
  return { class: `line run-${at}`, "stroke-dasharray": DASHES[at] };
}
