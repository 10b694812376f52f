/** Cohorts of persons, defined by a rule or by a list. */
import {
  Ask,
  Dialog,
  Empty,
  exact,
  Form,
  List,
  listOf,
  may,
  Page,
  type PropertyFilter,
  pageOf,
  pageQuery,
  patch,
  post,
  query,
  type Shapes,
  Shown,
  say,
  sentenceOfFilter,
  setQuery,
  useGet,
} from '../kit.ts'

type Cohort = Shapes['Cohort']

/** The page "Cohorts". The parameter `id` in the URL opens a cohort. */
export default function CohortsPage() {
  const id = query.value.get('id')
  return (
    <Page title="Cohorts" aside={may('cohort:write') && <NewCohort />}>
      <List
        title="Cohorts of persons"
        label="Cohorts"
        route="project/cohorts/"
        values={pageQuery()}
        open={(cohort) => setQuery({ id: String(cohort.id) })}
        none={<Empty title="No cohort yet.">A cohort names persons by a rule, for flags, filters and queries.</Empty>}
        columns={[
          ['Name', 'name'],
          ['Rule', ruleOf, 'minor cut'],
          ['Persons', 'count', 'count'],
          ['Counted', 'last_calculation', 'minor number ago'],
        ]}
      />
      {id !== null && <CohortDrawer id={Number(id)} />}
    </Page>
  )
}

/** Returns the rule of a cohort as a sentence. */
function ruleOf({ is_static: isStatic, filters }: Cohort): string {
  if (isStatic) return 'a list'
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

const ONE_A_LINE = 'One in a line, or between commas: a column of a CSV file.'
const ofList = ({ isList }: { isList: boolean }) => isList
const ofRule = ({ isList }: { isList: boolean }) => !isList

function NewCohort() {
  return (
    <Ask
      label="New cohort"
      title="A new cohort"
      action="Save"
      fields={{
        name: { label: 'Name', isRequired: true },
        isList: { kind: 'check', label: 'A list instead of a rule' },
        ids: { label: 'distinct_ids', type: 'area', hint: ONE_A_LINE, isShown: ofList },
        filters: { kind: 'filters', isShown: ofRule },
      }}
      submit={async ({ name, isList, ids, filters }) => {
        const members = isList ? { is_static: true, distinct_ids: listOf(ids) } : { filters: ruleFrom(filters) }
        await post('project/cohorts/', {}, { name, ...members })
        say(`Cohort “${name}” saved.`)
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
              <a href={pageOf(`/persons?${new URLSearchParams({ filter: members })}`)}>{exact(cohort.count)} persons</a>
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
      Flags that ask for it stop deciding by it. The persons stay.
    </Ask>
  )
}

function CohortForm({ cohort }: { cohort: Cohort }) {
  const rule = filtersOf(cohort.filters.properties)
  const canEditRule = !cohort.is_static && isPlain(cohort.filters.properties)
  return (
    <Form
      action="Save"
      fields={{
        name: { label: 'Name', value: cohort.name, isRequired: true },
        description: { label: 'Description', value: cohort.description },
        filters: { kind: 'filters', value: rule, isShown: () => canEditRule },
      }}
      submit={async ({ filters, ...words }) => {
        const body = { ...words, ...(canEditRule && { filters: ruleFrom(filters) }) }
        await patch('project/cohorts/{cohort_id}/', { cohort_id: cohort.id }, body)
        say('Saved.')
      }}
    >
      {cohort.is_static && <p class="quiet">A list; its persons are added by “Save as cohort”.</p>}
      {!cohort.is_static && !canEditRule && <p class="quiet">This rule has alternatives: change it through the API.</p>}
    </Form>
  )
}
