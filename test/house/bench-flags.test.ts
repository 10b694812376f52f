/**
 * Tests that the micro-benchmark of decisions runs, and that the time of a decision grows no faster than the number of
 * flags.
 *
 * @lane quick
 */
import t from 'tap'
import { run } from '../../bench/micro/flag-decisions.ts'

const RATIO_MAX = 16
/** Other tests run meanwhile, so rounds are added as long as the fastest ones do not meet the bound. */
const ROUNDS_MAX = 12

t.test('five hundred flags cost at most sixteen times as much as fifty', async (t) => {
  let [few, many] = [run(50, 1000), run(500, 200)]
  const ratio = () => many.decideUs / few.decideUs
  for (let round = 1; round < ROUNDS_MAX && ratio() >= RATIO_MAX; round++) {
    const [fewAgain, manyAgain] = [run(50, 1000), run(500, 200)]
    if (fewAgain.decideUs < few.decideUs) few = fewAgain
    if (manyAgain.decideUs < many.decideUs) many = manyAgain
  }
  t.ok(ratio() < RATIO_MAX, `they cost ${ratio().toFixed(1)} times as much`)
  for (const { flags, decideUs, hashUs } of [few, many]) {
    t.comment(`${flags} flags: ${decideUs.toFixed(1)} us, one SHA-1 each ${hashUs.toFixed(1)} us`)
    t.ok(decideUs > 0 && hashUs > 0)
  }
})
