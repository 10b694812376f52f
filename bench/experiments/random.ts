/** Random numbers for simulated experiments. The same seed gives the same sequence. */

/** Draws from several distributions. The generator is sfc32 (C. Doty-Humphrey, PractRand). */
export class Random {
  #a = 0
  #b = 0
  #c = 0
  #counter = 1
  /** Normal numbers are drawn in pairs. This is the second number of a pair, if it was not used yet. */
  #spare: number | null = null

  constructor(seed: number) {
    this.#a = seed | 0
    this.#b = (seed / 2 ** 32) | 0
    this.#c = 0x9e3779b9 | 0
    // The first numbers are skipped, because they are similar if the seeds are similar.
    for (let step = 0; step < 16; step++) this.uniform()
  }

  /** Returns a number of at least 0 and less than 1. */
  uniform(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return (sum >>> 0) / 2 ** 32
  }

  /** Returns a normal number, by the polar method of G. Marsaglia. */
  normal(): number {
    const spare = this.#spare
    if (spare !== null) {
      this.#spare = null
      return spare
    }
    for (;;) {
      const x = 2 * this.uniform() - 1
      const y = 2 * this.uniform() - 1
      const square = x * x + y * y
      if (square === 0 || square >= 1) continue
      const factor = Math.sqrt((-2 * Math.log(square)) / square)
      this.#spare = y * factor
      return x * factor
    }
  }

  /** Returns an exponential number with mean 1. */
  exponential(): number {
    return -Math.log(1 - this.uniform())
  }
}
