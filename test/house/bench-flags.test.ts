/** The micro bench of decisions runs, and a decision grows no faster than its flags. */
import t from 'tap'
import { run } from '../../bench/micro/flag-decisions.ts'

t.test('five hundred flags cost at most forty times as much as fifty', async (t) => {
  // Others run meanwhile: of three runs the quickest counts. What grows with the square would cost a hundred times.
  const quickest = (flags: number, decisions: number) =>
    [run(flags, decisions), run(flags, decisions), run(flags, decisions)].reduce((best, one) =>
      one.decideUs < best.decideUs ? one : best,
    )
  const few = quickest(50, 1000)
  const many = quickest(500, 200)
  const ratio = many.decideUs / few.decideUs
  t.ok(ratio < 40, `${ratio.toFixed(1)} times`)
  for (const { flags, decideUs, hashUs } of [few, many]) {
    t.comment(`${flags} flags: ${decideUs.toFixed(1)} us, one SHA-1 each ${hashUs.toFixed(1)} us`)
    t.ok(decideUs > 0 && hashUs > 0)
  }
})
