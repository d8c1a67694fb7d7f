/** Collects bytes in one buffer. A list of chunks would cost about 200 bytes for each, and a peer may send single bytes. */
export class GrowingBytes {
  #buffer = Buffer.alloc(0)
  length = 0

  add(chunk: Buffer): void {
    const length = this.length + chunk.length
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length))
      this.#buffer.copy(larger, 0, 0, this.length)
      this.#buffer = larger
    }
    chunk.copy(this.#buffer, this.length)
    this.length = length
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.length)
  }
}
