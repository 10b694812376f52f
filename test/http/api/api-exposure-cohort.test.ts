/**
 * The cohort of the persons who were exposed to an experiment: its members, its single place in the experiment, and
 * refusals.
 *
 * @lane quick
 */
import t from 'tap'
import { resultsOf, shareOrganization } from '../../fixtures/organization-daemon.ts'

type Body = Readonly<Record<string, unknown>>

const daemon = await shareOrganization(t)
const EXPERIMENTS = daemon.projectPath(1, 'experiments/')
const COHORTS = daemon.projectPath(1, 'cohorts/')

let made = 0

/** Creates an experiment with a flag of its own, launched a minute ago unless the body says otherwise. */
async function create(body: Body = {}): Promise<Body> {
  made++
  const start_date = new Date(Date.now() - 60_000).toISOString()
  const draft = { name: `Exposing ${made}`, feature_flag_key: `exposing-${made}`, start_date }
  const { status, body: experiment } = await daemon.ask('POST', EXPERIMENTS, { ...draft, ...body })
  t.equal(status, 201, JSON.stringify(experiment))
  return experiment
}

function expose({ feature_flag_key: flag }: Body, distinctId: string, variant: string) {
  return {
    event: '$feature_flag_called',
    distinct_id: distinctId,
    timestamp: new Date().toISOString(),
    properties: { $feature_flag: flag, $feature_flag_response: variant },
  }
}

function makeCohort({ id }: Body) {
  const path = `${EXPERIMENTS}${String(id)}/create_exposure_cohort_for_experiment/`
  return daemon.ask('POST', path)
}

async function membersOf(cohort: unknown): Promise<readonly string[]> {
  const path = daemon.projectPath(1, `persons/?cohort=${String(cohort)}`)
  const persons = resultsOf(await daemon.ask('GET', path))
  return persons.map(({ distinct_ids: ids }) => (ids as readonly string[]).join()).sort()
}

async function read({ id }: Body): Promise<Body> {
  return (await daemon.ask('GET', `${EXPERIMENTS}${String(id)}/`)).body
}

t.test('the exposed persons become a static cohort', async (t) => {
  const holdout = await daemon.ask('POST', daemon.projectPath(1, 'experiment_holdouts/'), {
    name: 'h',
    filters: [{ properties: [], rollout_percentage: 5 }],
  })
  const experiment = await create({ name: 'Short form', holdout_id: holdout.body['id'] })
  const other = await create()
  const personless = expose(experiment, 'nobody', 'test')
  const early = expose(experiment, 'early', 'test')
  await daemon.decisions.capture([
    expose(experiment, 'ann', 'test'),
    expose(experiment, 'ann', 'test'),
    expose(experiment, 'bob', 'control'),
    expose(experiment, 'both', 'control'),
    expose(experiment, 'both', 'test'),
    expose(experiment, 'kept-out', `holdout-${String(holdout.body['id'])}`),
    expose(experiment, 'no-variant', 'other'),
    expose(other, 'elsewhere', 'test'),
    { ...personless, properties: { ...personless.properties, $process_person_profile: false } },
    { ...early, timestamp: new Date(Date.now() - 3_600_000).toISOString() },
    { event: '$merge_dangerously', distinct_id: 'bob', properties: { alias: 'bobby' } },
  ])
  const answer = await makeCohort(experiment)
  t.equal(answer.status, 201, JSON.stringify(answer.body))
  const { cohort } = answer.body as { readonly cohort: Body }
  t.match(cohort, {
    name: 'Persons exposed to the experiment "Short form"',
    is_static: true,
    count: 3,
    deleted: false,
    filters: {},
    last_calculation: String,
    created_by: { email: String },
  })
  t.strictSame(await membersOf(cohort['id']), ['ann', 'bob,bobby', 'both'])
  t.equal((await read(experiment))['exposure_cohort'], cohort['id'])
  await daemon.decisions.capture([expose(experiment, 'late', 'test')])
  t.equal((await membersOf(cohort['id'])).length, 3, 'it stays as it is')
})

t.test('an experiment has one cohort at a time', async (t) => {
  const experiment = await create()
  await daemon.decisions.capture([expose(experiment, 'first', 'test')])
  const countCohorts = async () => (await daemon.ask('GET', COHORTS)).body['count'] as number
  const before = await countCohorts()
  const both = await Promise.all([makeCohort(experiment), makeCohort(experiment)])
  t.strictSame(both.map(({ status }) => status).sort(), [201, 400])
  t.equal(await countCohorts(), before + 1, 'the refused request leaves no cohort')
  const id = (await read(experiment))['exposure_cohort']
  t.match(await makeCohort(experiment), {
    status: 400,
    body: {
      type: 'validation_error',
      code: 'invalid_input',
      attr: null,
      detail: new RegExp(`already has the cohort ${String(id)}`),
    },
  })
  await daemon.decisions.capture([expose(experiment, 'second', 'control')])
  await daemon.ask('PATCH', `${COHORTS}${String(id)}/`, { deleted: true })
  const again = await makeCohort(experiment)
  t.match(again, { status: 201, body: { cohort: { count: 2 } } })
  t.not((await read(experiment))['exposure_cohort'], id)
  const path = `${EXPERIMENTS}${String(experiment['id'])}/`
  const copy = await daemon.ask('POST', `${path}duplicate/`, { feature_flag_key: 'not-exposing' })
  t.equal(copy.body['exposure_cohort'], null, 'a copy has none')
  const reset = await daemon.ask('POST', `${path}reset/`)
  t.equal(reset.body['exposure_cohort'], null, 'a new draft has none')
})

t.test('there is no cohort without an experiment that was launched', async (t) => {
  const draft = await create({ start_date: null })
  t.match(await makeCohort(draft), {
    status: 400,
    body: { code: 'invalid_input', detail: /not launched/ },
  })
  t.equal((await makeCohort({ id: 4_000_000 })).status, 404)
  const deleted = await create()
  await daemon.ask('PATCH', `${EXPERIMENTS}${String(deleted['id'])}/`, { deleted: true })
  t.equal((await makeCohort(deleted)).status, 404)
  const empty = await makeCohort(await create())
  t.match(empty, { status: 201, body: { cohort: { is_static: true, count: 0 } } })
})

t.test('the cohort needs both scopes, and is in the audit log with its experiment', async (t) => {
  const experiment = await create()
  const ann = daemon.somebody({ email: 'ann@exposed.example', firstName: 'Ann' })
  const reader = daemon.keyOf({ userId: ann.user.id, scopes: ['experiment:read'] })
  const writer = daemon.keyOf({ userId: ann.user.id, scopes: ['experiment:write'] })
  await daemon.settled()
  const id = String(experiment['id'])
  const path = `${EXPERIMENTS}${id}/create_exposure_cohort_for_experiment/`
  t.equal((await daemon.ask('POST', path, undefined, reader)).status, 403)
  t.match(await daemon.ask('POST', path, undefined, writer), {
    status: 403,
    body: { code: 'permission_denied', detail: /cohort:write/ },
  })
  const answer = await makeCohort(experiment)
  t.equal(answer.status, 201)
  const { id: cohort } = answer.body['cohort'] as Body
  const log = await daemon.ask('GET', 'organizations/@current/audit_log/?limit=4')
  const entries = resultsOf(log).map(({ method, route, object_id, status }) => {
    return [method, String(route).replace('/api/projects/:project_id/', ''), object_id, status]
  })
  const route = 'experiments/:id/create_exposure_cohort_for_experiment/'
  t.strictSame(entries, [
    ['POST', route, id, 201],
    ['POST', route, `cohort ${String(cohort)}`, 201],
    ['POST', route, id, 403],
    ['POST', route, id, 403],
  ])
})
