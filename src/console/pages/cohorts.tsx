/** Cohorts of persons, defined by a rule or by a list. */
import { useEffect, useState } from 'preact/hooks'
import {
  Ask,
  act,
  actionValue,
  ago,
  Button,
  changed,
  counted,
  Dialog,
  Empty,
  eventLabel,
  exact,
  Fields,
  Form,
  get,
  List,
  listOf,
  may,
  Page,
  type PropertyFilter,
  pageOf,
  pageQuery,
  patch,
  post,
  project,
  query,
  type Shapes,
  Shown,
  say,
  sentenceOfFilter,
  setQuery,
  useActionSuggestions,
  useGet,
  useLoaded,
} from '../kit.ts'
import { problemOf, type Rule, type RuleNames, ruleOf, sentenceOfRule, treeOf } from './cohort/rule.ts'
import { type OtherCohorts, RuleEditor } from './cohort/rule-editor.tsx'

type Cohort = Shapes['Cohort']

/**
 * The largest number of cohorts that fields offer, and the largest number of flags that are searched for uses of a
 * cohort.
 */
const OFFERED_MAX = 1000
/** While a cohort is being counted, its data is read again after this many milliseconds. */
const COUNTING_MS = 1000

/** The page "Cohorts". If the URL has the parameter `id`, the cohort with this number is open. */
export default function CohortsPage() {
  const id = query.value.get('id')
  const cohorts = useCohorts()
  const names = useNames(cohorts)
  return (
    <Page title="Cohorts" aside={may('cohort:write') && <NewCohort cohorts={cohorts} />}>
      <List
        title="All cohorts"
        label="Cohorts"
        route="project/cohorts/"
        values={pageQuery()}
        open={(cohort) => setQuery({ id: String(cohort.id) })}
        none={
          <Empty title="No cohorts yet.">
            A cohort is a set of people, chosen by a rule or listed one by one. Flags, filters and queries can use it.
          </Empty>
        }
        columns={[
          ['Name', 'name'],
          ['Rule', (cohort) => wordsOf(cohort, names), 'minor cut'],
          ['People', (cohort) => <Size cohort={cohort} />, 'number'],
          ['Created', 'created_at', 'minor number ago'],
        ]}
      />
      {id !== null && <CohortDrawer id={Number(id)} cohorts={cohorts} />}
    </Page>
  )
}

/** Returns the numbers and names of all cohorts. The list is empty while it loads. */
function useCohorts(): OtherCohorts {
  const { data } = useGet('project/cohorts/', { limit: OFFERED_MAX })
  return (data?.results ?? []).map(({ id, name }) => [id, name] as const)
}

/** Returns the names that the sentence of a rule needs. */
function useNames(cohorts: OtherCohorts): RuleNames {
  const known = new Map(cohorts)
  const actions = useActionSuggestions()
  return {
    event: eventLabel,
    action: (id) => actions.find(({ value }) => value === actionValue(id))?.words || `number ${id}`,
    cohort: (id) => known.get(id) ?? `number ${id}`,
    filter: (filter) => sentenceOfFilter(filter as unknown as PropertyFilter),
  }
}

/** While a cohort is being counted, reads the data of the page again and again. */
function useCounting({ is_calculating: isCounting }: Cohort): void {
  useEffect(() => {
    if (!isCounting) return
    const timer = setInterval(() => {
      if (!document.hidden) changed()
    }, COUNTING_MS)
    return () => clearInterval(timer)
  }, [isCounting])
}

/**
 * The last count that was started. A new count waits until this one has ended, because each count reads all persons.
 */
let lastCount: Promise<unknown> = Promise.resolve()

/**
 * Shows how many members a cohort has. The list of cohorts contains this number only for cohorts whose members are
 * stored. All others are counted when they are shown.
 */
function Size({ cohort }: { cohort: Cohort }) {
  const { id, count, filters, is_calculating: isCounting } = cohort
  useCounting(cohort)
  const name = `size ${project.value.id} ${id} ${count} ${isCounting} ${JSON.stringify(filters)}`
  const { data, error } = useLoaded(name, async (signal) => {
    if (count !== null || isCounting) return count
    const read = () => (signal.aborted ? null : get('project/cohorts/{cohort_id}/', { cohort_id: id }, signal))
    const found = lastCount.then(read, read)
    lastCount = found
    return (await found)?.count ?? null
  })
  if (error !== null) return <span title={error.message}>not counted</span>
  if (data === null && cohort.last_error_message !== null) {
    return <span title={cohort.last_error_message}>not counted</span>
  }
  return data === undefined || data === null ? <span class="quiet">counting …</span> : exact(data)
}

/** Returns the rule of a cohort as a sentence. */
function wordsOf({ is_static: isStatic, filters }: Cohort, names: RuleNames): string {
  return isStatic ? 'static list' : sentenceOfRule(ruleOf(filters.properties), names)
}

const ONE_A_LINE = 'One ID per line, or separated by commas, such as a column of a CSV file.'
const NEW_RULE = ruleOf({
  type: 'AND',
  values: [
    {
      type: 'behavioral',
      key: '',
      event_type: 'events',
      value: 'performed_event',
      time_value: 30,
      time_interval: 'day',
    },
  ],
})

function NewCohort({ cohorts }: { cohorts: OtherCohorts }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button press={() => setOpen(true)}>New cohort</Button>
      {isOpen && (
        <Dialog title="New cohort" close={() => setOpen(false)} side>
          <NewCohortForm cohorts={cohorts} close={() => setOpen(false)} />
        </Dialog>
      )}
    </>
  )
}

function NewCohortForm({ cohorts, close }: { cohorts: OtherCohorts; close: () => void }) {
  const [rule, setRule] = useState(NEW_RULE)
  const [kind, setKind] = useState({ isList: false, ids: '' })
  const { isList, ids } = kind
  const names = useNames(cohorts)
  return (
    <Form
      action="Create cohort"
      fields={{ name: { label: 'Name', isRequired: true } }}
      submit={async ({ name }) => {
        const problem = isList ? null : problemOf(rule)
        if (problem !== null) return refuse(problem)
        const members = isList ? { is_static: true, distinct_ids: listOf(ids) } : { filters: treeOf(rule) }
        await post('project/cohorts/', {}, { name, ...members } as never)
        say(`Cohort “${name}” created.`)
        close()
        return true
      }}
    >
      <Fields
        fields={{
          isList: { kind: 'check', label: 'Use a fixed list of people, not a rule' },
          ids: { label: 'Distinct IDs', type: 'area', hint: ONE_A_LINE, isShown: () => isList },
        }}
        values={kind}
        set={(changes) => setKind({ ...kind, ...changes })}
      />
      {!isList && <RuleEditor rule={rule} change={setRule} cohorts={cohorts} names={names} />}
    </Form>
  )
}

/** Tells the reader why a form cannot be sent, and returns false. */
function refuse(problem: string): false {
  say(problem)
  return false
}

function CohortDrawer({ id, cohorts }: { id: number; cohorts: OtherCohorts }) {
  const loaded = useGet('project/cohorts/{cohort_id}/', { cohort_id: id })
  const others = cohorts.filter(([one]) => one !== id)
  const names = useNames(cohorts)
  return (
    <Dialog title={loaded.data?.name ?? 'Cohort'} close={() => setQuery({ id: null })} side>
      <Shown of={loaded}>
        {(cohort) => (
          <>
            <CohortFacts cohort={cohort} />
            {may('cohort:write') ? (
              <CohortForm key={cohort.id} cohort={cohort} cohorts={others} />
            ) : (
              <p>{wordsOf(cohort, names)}</p>
            )}
            <UsedBy id={id} />
          </>
        )}
      </Shown>
    </Dialog>
  )
}

/** Shows the size of a cohort, when it was counted, and what the reader can do with it. */
function CohortFacts({ cohort }: { cohort: Cohort }) {
  const { id, count, is_calculating: isCounting, last_error_message: fault } = cohort
  useCounting(cohort)
  const members = JSON.stringify({ key: 'id', value: id, operator: 'in', type: 'cohort' })
  const isKept = isCounting || fault !== null || (!cohort.is_static && cohort.last_calculation !== null)
  return (
    <>
      <p class="row">
        <a href={pageOf(`/persons?${new URLSearchParams({ filter: members })}`)}>
          {count === null ? 'People' : counted(count, 'person', 'people')}
        </a>
        {isKept && (
          <span class="quiet" role="status">
            {isCounting ? 'Counting …' : `Counted ${ago(cohort.last_calculation)}`}
          </span>
        )}
        {isKept && may('cohort:write') && (
          <Button
            disabled={isCounting}
            press={() => act(post('project/cohorts/{cohort_id}/calculate/', { cohort_id: id }), 'Counting again.')}
          >
            Count again
          </Button>
        )}
        {may('cohort:write') && <DeleteCohort cohort={cohort} />}
      </p>
      {isKept && (
        <p class="quiet">
          A rule on events is counted when it changes, and then every hour. Between two counts, the same people belong
          to the cohort.
        </p>
      )}
      {fault !== null && <p class="notice bad">The last count failed: {fault}</p>}
    </>
  )
}

/** Lists the flags and the cohorts that use a cohort. */
function UsedBy({ id }: { id: number }) {
  const { data } = useLoaded(`used by ${project.value.id} ${id}`, async (signal) => {
    const asked = { limit: OFFERED_MAX }
    const [flags, cohorts] = await Promise.all([
      may('feature_flag:read') ? get('project/feature_flags/', asked, signal) : { results: [] },
      get('project/cohorts/', asked, signal),
    ])
    return {
      flags: flags.results.filter(({ filters }) => refersTo(filters, id)),
      cohorts: cohorts.results.filter(({ filters }) => refersTo(filters, id)),
    }
  })
  if (data === undefined) return null
  const { flags, cohorts } = data
  if (flags.length + cohorts.length === 0) return <p class="quiet">No flag and no other cohort uses this cohort.</p>
  return (
    <section>
      <h3>Used by</h3>
      <ul>
        {flags.map((flag) => (
          <li key={flag.id}>
            Flag <a href={pageOf(`/flags/${flag.id}`)}>{flag.key}</a>
          </li>
        ))}
        {cohorts.map((cohort) => (
          <li key={cohort.id}>
            Cohort <a href={pageOf(`/cohorts?id=${cohort.id}`)}>{cohort.name}</a>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** Returns true if a value contains a filter that refers to a cohort. */
function refersTo(value: unknown, id: number): boolean {
  if (Array.isArray(value)) return value.some((one) => refersTo(one, id))
  if (typeof value !== 'object' || value === null) return false
  const { type, value: named } = value as { readonly type?: unknown; readonly value?: unknown }
  if (type === 'cohort' && Number(Array.isArray(named) ? named[0] : named) === id) return true
  return Object.values(value).some((one) => refersTo(one, id))
}

function DeleteCohort({ cohort: { id, name } }: { cohort: Cohort }) {
  async function submit() {
    await patch('project/cohorts/{cohort_id}/', { cohort_id: id }, { deleted: true })
    setQuery({ id: null })
  }
  return (
    <Ask label="Delete" title={`Delete “${name}”?`} submit={submit}>
      Flags and queries that use this cohort no longer match anyone. The people are not deleted.
    </Ask>
  )
}

function CohortForm({ cohort, cohorts }: { cohort: Cohort; cohorts: OtherCohorts }) {
  const [rule, setRule] = useState<Rule>(() => ruleOf(cohort.filters.properties))
  const names = useNames(cohorts)
  return (
    <Form
      action="Save cohort"
      fields={{
        name: { label: 'Name', value: cohort.name, isRequired: true },
        description: { label: 'Description', value: cohort.description },
      }}
      submit={async (words) => {
        const problem = cohort.is_static ? null : problemOf(rule)
        if (problem !== null) return refuse(problem)
        const body = { ...words, ...(!cohort.is_static && { filters: treeOf(rule) }) }
        await patch('project/cohorts/{cohort_id}/', { cohort_id: cohort.id }, body as never)
        say('Cohort saved.')
        return true
      }}
    >
      {cohort.is_static ? (
        <p class="quiet">This is a static list. “Save as cohort” in the list of people behind a number creates one.</p>
      ) : (
        <RuleEditor rule={rule} change={setRule} cohorts={cohorts} names={names} />
      )}
    </Form>
  )
}
