import { type Logger, pino } from 'pino'

export type { Logger }

/** `false` is silence, a level makes a logger of ours, and a caller's own pino is used as it is. */
export type LogOption = false | string | Logger

export function createLogger(option: LogOption): Logger {
  if (option === false) return pino({ level: 'silent' })
  if (typeof option === 'string') return pino({ name: 'posthorn', level: option })
  return option
}
