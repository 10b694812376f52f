/**
 * Experiments in the store: an experiment and its flag change in one transaction, which machines of a cluster share as
 * one set of writes, and both survive a restart.
 *
 * @lane quick
 */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { ExperimentCommand } from '../../src/rules/experiments/edit/experiment-changes.ts'
import { FlagStore } from '../../src/store/catalog/flag-store.ts'
import { OrganizationStore, SHARED_CATALOGUE } from '../../src/store/catalog/organization-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'

const PROJECT = 1
const NOW_MS = Date.parse('2026-11-30T12:00:00Z')
const CONTEXT = {
  projectId: PROJECT,
  actor: { userId: 1, firstName: 'Owner', email: 'owner@store.example' },
  nowMs: NOW_MS,
  cohort: () => null,
}
const DRAFT: ExperimentCommand = {
  action: 'create',
  input: { name: 'Short form', feature_flag_key: 'short-form' },
}

/** A store after its first start in a new folder, closed. */
async function newStore(t: Test): Promise<string> {
  const path = join(t.testdir({ data: {} }), 'data')
  const directory = await DataDir.open(path)
  const store = new OrganizationStore(path)
  store.projects.bootstrap({ projectKey: 'phc_experiments', personalKey: 'phx_experiments' })
  await store.close()
  directory.release()
  return path
}

t.test('an experiment and its flag are stored together', async (t) => {
  const path = await newStore(t)
  const flags = new FlagStore(path)
  const { id } = flags.changeExperiment(CONTEXT, DRAFT)
  flags.changeExperiment(CONTEXT, { action: 'step', id, step: { step: 'launch' } })
  await flags.close()
  const organization = new OrganizationStore(path)
  const again = new FlagStore(path)
  t.teardown(async () => {
    await organization.close()
    await again.close()
  })
  const view = organization.experiments.get({ projectId: PROJECT, id })
  t.match(view?.experiment.fields, { start_date: '2026-11-30T12:00:00Z', name: 'Short form' })
  t.match(again.flags(PROJECT).byKey('short-form'), { active: true, experiments: [id] })
})

t.test('a refused experiment leaves no flag', async (t) => {
  const flags = new FlagStore(await newStore(t))
  t.teardown(() => flags.close())
  const start_date = '2026-11-30T13:00:00Z'
  const faulty: ExperimentCommand = { action: 'create', input: { ...DRAFT.input, start_date } }
  t.throws(() => flags.changeExperiment(CONTEXT, faulty), { code: 'invalid_input' })
  t.strictSame(flags.flags(PROJECT).flags, [])
})

t.test('the exposure cohort of a start that was changed meanwhile is refused', async (t) => {
  const flags = new FlagStore(await newStore(t))
  t.teardown(() => flags.close())
  const { id } = flags.changeExperiment(CONTEXT, DRAFT)
  const launch: ExperimentCommand = { action: 'step', id, step: { step: 'launch' } }
  const set: ExperimentCommand = {
    action: 'set_exposure_cohort',
    id,
    cohortId: 1,
    formerId: null,
    startDate: '2026-11-30T12:00:00Z',
  }
  flags.changeExperiment(CONTEXT, launch)
  flags.changeExperiment(CONTEXT, { action: 'step', id, step: { step: 'reset' } })
  t.throws(() => flags.changeExperiment(CONTEXT, set), { message: /was changed while/ })
  flags.changeExperiment({ ...CONTEXT, nowMs: NOW_MS + 1000 }, launch)
  t.throws(() => flags.changeExperiment(CONTEXT, set), { message: /was changed while/ })
})

t.test('a change of several flags by a holdout is one change', async (t) => {
  const flags = new FlagStore(await newStore(t))
  t.teardown(() => flags.close())
  const fields = { name: 'h', description: null, percentage: 10 }
  const { id } = flags.changeExperiment(CONTEXT, { action: 'create_holdout', fields })
  for (const key of ['a', 'b']) {
    const input = { name: key, feature_flag_key: key, holdout_id: id }
    flags.changeExperiment(CONTEXT, { action: 'create', input })
  }
  const percentages = () =>
    flags.flags(PROJECT).flags.map(({ filters }) => {
      return (filters['holdout'] as { exclusion_percentage: number } | null)?.exclusion_percentage
    })
  t.strictSame(percentages(), [10, 10])
  flags.changeExperiment(CONTEXT, { action: 'change_holdout', id, fields: { percentage: 20 } })
  t.strictSame(percentages(), [20, 20])
  flags.changeExperiment(CONTEXT, { action: 'delete_holdout', id })
  t.strictSame(percentages(), [undefined, undefined])
})

t.test('in a cluster an experiment and its flag are one set of writes', async (t) => {
  const path = await newStore(t)
  const copy = SHARED_CATALOGUE.open(path)
  copy.replace({ ...copy.whole(), place: { incarnation: 'a', sequence: 1, number: 1 } })
  const stop = SHARED_CATALOGUE.propose(path)
  const flags = new FlagStore(path)
  t.teardown(async () => {
    stop()
    await flags.close()
    await copy.close()
  })
  flags.changeExperiment(CONTEXT, DRAFT)
  const proposal = SHARED_CATALOGUE.takeProposal()
  t.strictSame(flags.flags(PROJECT).flags, [], 'nothing is stored before it was ordered')
  if (proposal === null) throw new Error('nothing was proposed')
  const { changes, local } = proposal
  copy.apply({ place: { incarnation: 'a', sequence: 2, number: 2 }, changes, local })
  const [flag] = flags.flags(PROJECT).flags
  t.match(flag, { key: 'short-form', experiments: [1] })
})
