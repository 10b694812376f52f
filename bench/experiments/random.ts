/** Random numbers of simulated experiments, the same sequence for the same seed. */

/** Draws from several distributions. The generator is sfc32 (C. Doty-Humphrey, PractRand). */
export class Random {
  #a = 0
  #b = 0
  #c = 0
  #counter = 1
  /** The second of two normal numbers that are drawn together. */
  #spare: number | null = null

  constructor(seed: number) {
    this.#a = seed | 0
    this.#b = (seed / 2 ** 32) | 0
    this.#c = 0x9e3779b9 | 0
    // The first numbers of similar seeds are similar.
    for (let step = 0; step < 16; step++) this.uniform()
  }

  /** From 0 to below 1. */
  uniform(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return (sum >>> 0) / 2 ** 32
  }

  /** The polar method of G. Marsaglia. */
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

  /** With mean 1. */
  exponential(): number {
    return -Math.log(1 - this.uniform())
  }
}
