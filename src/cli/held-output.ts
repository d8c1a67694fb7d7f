/** A log that keeps its lines back until it is released: what a person should see first is printed first. */
export class HeldOutput {
  readonly #output: NodeJS.WritableStream
  #held: string[] | undefined = []

  constructor(output: NodeJS.WritableStream) {
    this.#output = output
  }

  write(line: string): void {
    if (this.#held === undefined) this.#output.write(line)
    else this.#held.push(line)
  }

  /** Twice is safe. */
  release(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const line of held) this.#output.write(line)
  }
}
