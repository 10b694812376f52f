/**
 * Formulas over series, such as `(A + B) * 100`. The letter A, in upper or lower case, is the first series, B the
 * second, and so on. Source: docs/compatibility/queries.md, "TrendsQuery".
 */

/** Returns the value of a formula for one value of each series. */
export type Formula = (values: readonly number[]) => number

type Operator = (left: number, right: number) => number

const TOKEN = /\s*(?:((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)|([a-z])|(\*\*|[-+*/%()])|$)/giy
const SUMS: ReadonlyMap<string, Operator> = new Map([
  ['+', (left, right) => left + right],
  ['-', (left, right) => left - right],
])
const PRODUCTS: ReadonlyMap<string, Operator> = new Map([
  ['*', (left, right) => left * right],
  ['/', (left, right) => left / right],
  // The remainder has the sign of the divisor, as in Python.
  ['%', (left, right) => left - right * Math.floor(left / right)],
])

/**
 * Parses a formula over `seriesCount` series. Returns null if the text is not a formula. A step whose result is not a
 * number, such as a division by zero, yields 0.
 */
export function parseFormula(text: string, seriesCount: number): Formula | null {
  const tokens = tokensOf(text)
  if (tokens === null) return null
  const parser = new FormulaParser(tokens, seriesCount)
  const formula = parser.sum()
  return parser.isAtEnd ? formula : null
}

/** Splits a text into numbers, letters and operators. Returns null if it contains anything else. */
function tokensOf(text: string): readonly string[] | null {
  const tokens: string[] = []
  const pattern = new RegExp(TOKEN)
  while (pattern.lastIndex < text.length) {
    const match = pattern.exec(text)
    if (match === null) return null
    const token = match[1] ?? match[2] ?? match[3]
    if (token === undefined) break
    tokens.push(token)
  }
  return tokens
}

/**
 * A recursive descent parser with one method for each precedence level. Methods return null for a text that is not a
 * formula.
 */
class FormulaParser {
  readonly #tokens: readonly string[]
  readonly #seriesCount: number
  #next = 0

  constructor(tokens: readonly string[], seriesCount: number) {
    this.#tokens = tokens
    this.#seriesCount = seriesCount
  }

  get isAtEnd(): boolean {
    return this.#next === this.#tokens.length
  }

  sum(): Formula | null {
    return this.#chain(SUMS, () => this.#product())
  }

  #product(): Formula | null {
    return this.#chain(PRODUCTS, () => this.#signed())
  }

  #chain(operators: ReadonlyMap<string, Operator>, operand: () => Formula | null): Formula | null {
    let formula = operand()
    while (formula !== null) {
      const operator = operators.get(this.#tokens[this.#next] ?? '')
      if (operator === undefined) break
      this.#next++
      formula = applied(operator, formula, operand())
    }
    return formula
  }

  /** Parses an optional sign. A minus before a power applies to the whole power: -2 ** 2 is -4. */
  #signed(): Formula | null {
    if (!this.#take('-')) return this.#power()
    const formula = this.#signed()
    return formula === null ? null : (values) => -formula(values)
  }

  #power(): Formula | null {
    const base = this.#atom()
    if (base === null || !this.#take('**')) return base
    return applied((left, right) => left ** right, base, this.#signed())
  }

  #atom(): Formula | null {
    if (this.#take('(')) {
      const formula = this.sum()
      return this.#take(')') ? formula : null
    }
    const token = this.#tokens[this.#next++] ?? ''
    if (/^[\d.]/.test(token)) {
      const number = Number(token)
      return Number.isFinite(number) ? () => number : null
    }
    const series = /^[a-z]$/i.test(token) ? token.toUpperCase().charCodeAt(0) - 65 : -1
    if (series < 0 || series >= this.#seriesCount) return null
    return (values) => values[series] ?? 0
  }

  #take(token: string): boolean {
    if (this.#tokens[this.#next] !== token) return false
    this.#next++
    return true
  }
}

function applied(operator: Operator, left: Formula, right: Formula | null): Formula | null {
  if (right === null) return null
  return (values) => {
    const result = operator(left(values), right(values))
    return Number.isFinite(result) ? result : 0
  }
}
