/** One webhook request and its answer, as they are stored. */
export interface ExchangeRecord {
  readonly request: {
    readonly url: string
    readonly headers: Readonly<Record<string, string>>
    readonly bodySha256: string
    readonly bodyBytes: number
  }
  readonly statusCode: number | null
  readonly response: null | {
    readonly headers: Readonly<Record<string, string>>
    /** The beginning of the body. */
    readonly body: string
    /** How many bytes of the body were read. */
    readonly bytes: number
  }
  readonly errorClass: string | null
  readonly error: string | null
  /** Milliseconds by phase; a phase that was not reached is left out. */
  readonly timings: Readonly<Record<string, number>>
}
