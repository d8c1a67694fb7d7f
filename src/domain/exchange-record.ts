/** One request over HTTP and what came of it, as it is kept. */
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
    /** Its beginning. */
    readonly body: string
    /** How many were read. */
    readonly bytes: number
  }
  readonly errorClass: string | null
  readonly error: string | null
  /** Milliseconds by step; a step that was not reached is left out. */
  readonly timings: Readonly<Record<string, number>>
}
