import { badOption } from './arguments.ts'

const unitsMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `7d`, `36h`, `90m`, `30s`. */
export function parseDuration(option: string, text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text.trim()) ?? []
  const ms = Number(count) * (unitsMs[unit ?? ''] ?? Number.NaN)
  if (Number.isSafeInteger(ms)) return ms
  throw badOption(option, 'a time such as 7d, 36h, 90m or 30s', text)
}

/** In the largest unit that gives a whole number. */
export function formatDuration(ms: number): string {
  const [unit, unitMs] = Object.entries(unitsMs).findLast(([, one]) => ms > 0 && ms % one === 0) ?? ['ms', 1]
  return `${ms / unitMs}${unit}`
}
