/**
 * The colors and line styles that tell the series of a chart apart.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { COLORS, lookOf } from '../../src/console/parts/series-look.ts'

const SERIES = 32
/** Two colors that are nearer to each other look alike in a thin line. */
const DISTANCE_MIN = 50

t.test('no two series look alike', async (t) => {
  const looks = Array.from({ length: SERIES }, (_, place) => JSON.stringify(lookOf(place)))
  t.equal(new Set(looks).size, SERIES)
  t.not(looks[0], looks[COLORS], 'the first and the ninth')
})

t.test('the colors of series differ in both themes', async (t) => {
  const css = readFileSync(new URL('../../src/console/tokens.css', import.meta.url), 'utf8')
  const pairs = [...css.matchAll(/--series-\d: light-dark\((#\w{6}), (#\w{6})\)/g)]
  t.equal(pairs.length, COLORS)
  for (const theme of [1, 2]) {
    const colors = pairs.map((pair) => pair[theme] ?? '')
    const near = colors.flatMap((one, place) =>
      colors
        .slice(place + 1)
        .filter((other) => distance(one, other) < DISTANCE_MIN)
        .map((other) => `${one} ${other}`),
    )
    t.strictSame(near, [])
  }
})

/** Returns the distance between two colors such as #1a2b3c. */
function distance(one: string, other: string): number {
  const parts = [1, 3, 5].map((at) => {
    const [a, b] = [one, other].map((color) => Number.parseInt(color.slice(at, at + 2), 16))
    return (a ?? 0) - (b ?? 0)
  })
  return Math.hypot(...parts)
}
