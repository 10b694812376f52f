/** Cohorts: persons by a rule, or a list of them. */

import { useState } from 'preact/hooks'
import {
  AreaField,
  ago,
  Card,
  Check,
  ConfirmButton,
  Dialog,
  Empty,
  exact,
  FilterList,
  Form,
  may,
  Page,
  Pager,
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
  Table,
  TextField,
  useGet,
} from '../kit.ts'

type Cohort = Shapes['Cohort']

/** The page; `id` in the address opens one. */
export default function CohortsPage() {
  const asked = pageQuery()
  const loaded = useGet('project/cohorts/', asked)
  const id = query.value.get('id')
  const close = () => setQuery({ id: null })
  return (
    <Page title="Cohorts" aside={may('cohort:write') ? <NewCohort reload={loaded.reload} /> : null}>
      <Card title="Cohorts of persons">
        <Shown of={loaded}>
          {({ results, count }) => (
            <>
              <Table
                label="Cohorts"
                rows={results}
                keyOf={(cohort) => cohort.id}
                open={(cohort) => setQuery({ id: String(cohort.id) })}
                none={
                  <Empty title="No cohort yet.">
                    A cohort names persons by a rule, for flags, filters and queries.
                  </Empty>
                }
                columns={[
                  { head: 'Name', cell: ({ name }) => name },
                  { head: 'Rule', isMinor: true, cell: ruleOf },
                  { head: 'Persons', isNumber: true, cell: ({ count: members }) => exact(members) },
                  {
                    head: 'Counted',
                    isMinor: true,
                    isNumber: true,
                    cell: ({ last_calculation: at }) => ago(at),
                  },
                ]}
              />
              <Pager count={count} />
            </>
          )}
        </Shown>
      </Card>
      {id === null ? null : <CohortDrawer id={Number(id)} close={close} changed={loaded.reload} />}
    </Page>
  )
}

/** The rule of a cohort as a sentence. */
function ruleOf({ is_static: isStatic, filters }: Cohort): string {
  if (isStatic) return 'a list'
  return filtersOf(filters.properties).map(sentenceOfFilter).join(' and ')
}

/** All filters of a tree, whatever joins them. */
function filtersOf(tree: unknown): readonly PropertyFilter[] {
  if (Array.isArray(tree)) return tree.flatMap(filtersOf)
  if (typeof tree !== 'object' || tree === null) return []
  return 'values' in tree ? filtersOf(tree.values) : 'key' in tree ? [tree as PropertyFilter] : []
}

/** True for rules that are a list of conditions, all of which hold: those that the fields can show. */
function isPlain(tree: unknown): boolean {
  const { type, values } = (tree ?? {}) as { type?: string; values?: readonly unknown[] }
  if (values === undefined) return true
  return (type === 'AND' || values.length === 1) && values.every((one) => 'key' in (one as object) || isPlain(one))
}

function ruleFrom(filters: readonly PropertyFilter[]) {
  return { properties: { type: 'AND', values: [{ type: 'AND', values: filters }] } }
}

function NewCohort({ reload }: { readonly reload: () => void }) {
  const [name, setName] = useState('')
  const [isStatic, setStatic] = useState(false)
  const [ids, setIds] = useState('')
  const [filters, setFilters] = useState<readonly PropertyFilter[]>([])
  return (
    <ConfirmButton
      label="New cohort"
      title="A new cohort"
      action="Save"
      isDangerous={false}
      submit={async () => {
        const list = ids
          .split(/[\n,]/)
          .map((one) => one.trim())
          .filter((one) => one !== '')
        const members = isStatic ? { is_static: true, distinct_ids: list } : { filters: ruleFrom(filters) }
        await post('project/cohorts/', {}, { name, ...members })
        say(`Cohort “${name}” saved.`)
        reload()
      }}
    >
      <TextField label="Name" value={name} change={setName} isRequired />
      <Check label="A list instead of a rule" value={isStatic} change={setStatic} />
      {isStatic ? (
        <AreaField
          label="distinct_ids"
          value={ids}
          change={setIds}
          rows={8}
          hint="One in a line, or between commas: a column of a CSV file."
        />
      ) : (
        <FilterList filters={filters} change={setFilters} types={['person']} />
      )}
    </ConfirmButton>
  )
}

function CohortDrawer({
  id,
  close,
  changed,
}: {
  readonly id: number
  readonly close: () => void
  readonly changed: () => void
}) {
  const loaded = useGet('project/cohorts/{cohort_id}/', { cohort_id: id })
  return (
    <Dialog title={loaded.data?.name ?? 'Cohort'} close={close} side>
      <Shown of={loaded}>
        {(cohort) => (
          <>
            <p class="row">
              <a href={pageOf(`/persons?${membersFilter(id)}`)}>{exact(cohort.count)} persons</a>
              {may('cohort:write') ? (
                <DeleteCohort
                  cohort={cohort}
                  done={() => {
                    close()
                    changed()
                  }}
                />
              ) : null}
            </p>
            <CohortForm
              cohort={cohort}
              done={() => {
                loaded.reload()
                changed()
              }}
            />
          </>
        )}
      </Shown>
    </Dialog>
  )
}

function membersFilter(id: number): string {
  const filter = { key: 'id', value: id, operator: 'in', type: 'cohort' }
  return String(new URLSearchParams({ filter: JSON.stringify(filter) }))
}

function DeleteCohort({ cohort: { id, name }, done }: { readonly cohort: Cohort; readonly done: () => void }) {
  return (
    <ConfirmButton
      label="Delete"
      title={`Delete “${name}”?`}
      submit={async () => {
        await patch('project/cohorts/{cohort_id}/', { cohort_id: id }, { deleted: true })
        done()
      }}
    >
      <p>Flags that ask for it stop deciding by it. The persons stay.</p>
    </ConfirmButton>
  )
}

function CohortForm({ cohort, done }: { readonly cohort: Cohort; readonly done: () => void }) {
  const [name, setName] = useState(cohort.name)
  const [description, setDescription] = useState(cohort.description)
  const [filters, setFilters] = useState(filtersOf(cohort.filters.properties))
  const canEditRule = !cohort.is_static && isPlain(cohort.filters.properties)
  async function save() {
    const body = { name, description, ...(canEditRule ? { filters: ruleFrom(filters) } : {}) }
    await patch('project/cohorts/{cohort_id}/', { cohort_id: cohort.id }, body)
    say('Saved.')
    done()
  }
  const fields = (
    <>
      <TextField label="Name" value={name} change={setName} isRequired />
      <TextField label="Description" value={description} change={setDescription} />
      {canEditRule ? (
        <FilterList filters={filters} change={setFilters} types={['person']} />
      ) : (
        <p class="quiet">
          {cohort.is_static
            ? 'A list; its persons are added by “Save as cohort”.'
            : 'This rule has alternatives: change it through the API.'}
        </p>
      )}
    </>
  )
  return may('cohort:write') ? (
    <Form action="Save" submit={save}>
      {fields}
    </Form>
  ) : (
    <p>{ruleOf(cohort)}</p>
  )
}
