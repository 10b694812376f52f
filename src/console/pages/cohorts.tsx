/** Cohorts of persons, defined by a rule or by a list. */
import {
  Ask,
  counted,
  Dialog,
  Empty,
  exact,
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
  useGet,
  useLoaded,
} from '../kit.ts'

type Cohort = Shapes['Cohort']

/** The page "Cohorts". The parameter `id` in the URL opens a cohort. */
export default function CohortsPage() {
  const id = query.value.get('id')
  return (
    <Page title="Cohorts" aside={may('cohort:write') && <NewCohort />}>
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
          ['Rule', ruleOf, 'minor cut'],
          ['People', (cohort) => <Size cohort={cohort} />, 'number'],
          ['Created', 'created_at', 'minor number ago'],
        ]}
      />
      {id !== null && <CohortDrawer id={Number(id)} />}
    </Page>
  )
}

/** Cohorts are counted one after the other, because each count reads all persons. */
let lastCount: Promise<unknown> = Promise.resolve()

/** Shows the number of members. Lists have it only for static cohorts; the others are counted when they are shown. */
function Size({ cohort: { id, count, filters } }: { cohort: Cohort }) {
  const { data, error } = useLoaded(`size ${project.value.id} ${id} ${JSON.stringify(filters)}`, async (signal) => {
    if (count !== null) return count
    const read = () => (signal.aborted ? null : get('project/cohorts/{cohort_id}/', { cohort_id: id }, signal))
    const found = lastCount.then(read, read)
    lastCount = found
    return (await found)?.count ?? null
  })
  if (error !== null) return <span title={error.message}>not counted</span>
  return data === undefined ? <span class="quiet">counting …</span> : exact(data)
}

/** Returns the rule of a cohort as a sentence. */
function ruleOf({ is_static: isStatic, filters }: Cohort): string {
  if (isStatic) return 'static list'
  return sentenceOf(filters.properties)
}

/** Returns a filter tree as a sentence. Nested groups are put in brackets. */
function sentenceOf(tree: unknown): string {
  const { type, values } = (tree ?? {}) as { type?: string; values?: readonly unknown[] }
  if (values === undefined) return filtersOf(tree).map(sentenceOfFilter).join(' and ')
  const bracketed = (one: unknown) =>
    values.length > 1 && filtersOf(one).length > 1 ? `(${sentenceOf(one)})` : sentenceOf(one)
  return values.map(bracketed).join(type === 'OR' ? ' or ' : ' and ')
}

/** Returns all filters of a tree, without its structure. */
function filtersOf(tree: unknown): readonly PropertyFilter[] {
  if (Array.isArray(tree)) return tree.flatMap(filtersOf)
  if (typeof tree !== 'object' || tree === null) return []
  return 'values' in tree ? filtersOf(tree.values) : 'key' in tree ? [tree as PropertyFilter] : []
}

/**
 * Returns true for rules that are a plain list of conditions that must all match. Only these can be edited in the
 * fields.
 */
function isPlain(tree: unknown): boolean {
  const { type, values } = (tree ?? {}) as { type?: string; values?: readonly unknown[] }
  if (values === undefined) return true
  return (type === 'AND' || values.length === 1) && values.every((one) => 'key' in (one as object) || isPlain(one))
}

function ruleFrom(filters: readonly PropertyFilter[]) {
  return { properties: { type: 'AND', values: [{ type: 'AND', values: filters }] } }
}

const ONE_A_LINE = 'One ID per line, or separated by commas, such as a column of a CSV file.'
const ofList = ({ isList }: { isList: boolean }) => isList
const ofRule = ({ isList }: { isList: boolean }) => !isList

function NewCohort() {
  return (
    <Ask
      label="New cohort"
      title="New cohort"
      action="Create cohort"
      fields={{
        name: { label: 'Name', isRequired: true },
        isList: { kind: 'check', label: 'Use a fixed list of people, not a rule' },
        ids: { label: 'Distinct IDs', type: 'area', hint: ONE_A_LINE, isShown: ofList },
        filters: { kind: 'filters', isShown: ofRule },
      }}
      submit={async ({ name, isList, ids, filters }) => {
        const members = isList ? { is_static: true, distinct_ids: listOf(ids) } : { filters: ruleFrom(filters) }
        await post('project/cohorts/', {}, { name, ...members })
        say(`Cohort “${name}” created.`)
      }}
    />
  )
}

function CohortDrawer({ id }: { id: number }) {
  const loaded = useGet('project/cohorts/{cohort_id}/', { cohort_id: id })
  const members = JSON.stringify({ key: 'id', value: id, operator: 'in', type: 'cohort' })
  return (
    <Dialog title={loaded.data?.name ?? 'Cohort'} close={() => setQuery({ id: null })} side>
      <Shown of={loaded}>
        {(cohort) => (
          <>
            <p class="row">
              <a href={pageOf(`/persons?${new URLSearchParams({ filter: members })}`)}>
                {counted(cohort.count ?? 0, 'person', 'people')}
              </a>
              {may('cohort:write') && <DeleteCohort cohort={cohort} />}
            </p>
            {may('cohort:write') ? <CohortForm cohort={cohort} /> : <p>{ruleOf(cohort)}</p>}
          </>
        )}
      </Shown>
    </Dialog>
  )
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

function CohortForm({ cohort }: { cohort: Cohort }) {
  const rule = filtersOf(cohort.filters.properties)
  const canEditRule = !cohort.is_static && isPlain(cohort.filters.properties)
  return (
    <Form
      action="Save cohort"
      fields={{
        name: { label: 'Name', value: cohort.name, isRequired: true },
        description: { label: 'Description', value: cohort.description },
        filters: { kind: 'filters', value: rule, isShown: () => canEditRule },
      }}
      submit={async ({ filters, ...words }) => {
        const body = { ...words, ...(canEditRule && { filters: ruleFrom(filters) }) }
        await patch('project/cohorts/{cohort_id}/', { cohort_id: cohort.id }, body)
        say('Cohort saved.')
      }}
    >
      {cohort.is_static && (
        <p class="quiet">This is a static list. “Save as cohort” in the list of people behind a number creates one.</p>
      )}
      {!cohort.is_static && !canEditRule && (
        <p class="quiet">This rule has alternatives (“or”), which only the API can change.</p>
      )}
    </Form>
  )
}
