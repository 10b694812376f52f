/**
 * Runs the whole-flag cases over HTTP. Each case has its own project with its flags, cohorts, persons and groups. Its
 * request must get exactly the expected answer on `/flags/?v=2`, and the same values on `/decide/`.
 *
 * @lane quick
 */
import t from 'tap'
import {
  checkFlagCase,
  draftsOf,
  eventsOf,
  FLAG_CASES,
  makeCohorts,
} from '../../fixtures/conformance/flags.ts'
import { Differences } from '../../fixtures/differences.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const repository = await shareDecisions(FLAG_CASES.length)

for (const evalCase of FLAG_CASES) {
  const events = eventsOf(evalCase)
  if (events.length > 0) await repository.capture(events, evalCase.projectId)
  await makeCohorts(repository, evalCase)
  await repository.putFlags(draftsOf(evalCase), evalCase.projectId, false)
}
await repository.settled()

for (const evalCase of FLAG_CASES) {
  t.test(`case ${evalCase.id}`, async (t) => {
    const differences = new Differences()
    await checkFlagCase(differences, repository, evalCase)
    t.strictSame(differences.list(), [], 'the case is decided as it says')
  })
}
