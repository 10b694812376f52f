/**
 * The list of persons. Readers can search it by a part of an email address or a name, by a distinct ID, and by
 * properties.
 */
import {
  AddFilter,
  ago,
  type Column,
  curlLine,
  Empty,
  FilterChips,
  filtersOfAddress,
  get,
  go,
  inProjectPath,
  List,
  may,
  Page,
  pageQuery,
  plain,
  project,
  propertyLabel,
  query,
  Search,
  type Shapes,
  setQuery,
  useLoaded,
  usePropertyNames,
  valueLabel,
} from '../kit.ts'

type Person = Shapes['Person']

/** The columns that are shown if the URL names none. The names of properties can also be columns. */
const COLUMNS = ['email', 'company', '$geoip_country_code', 'first_seen'] as const
const FIXED_LABELS: Readonly<Record<string, string>> = {
  distinct_id: 'Distinct ID',
  first_seen: 'First seen',
  last_seen: 'Last seen',
  company: 'Company',
}
/** The menu of columns offers at most this many properties, the most frequent ones. */
const OFFERED_MAX = 30

/** The page "Persons". */
export default function PersonsPage() {
  const filters = filtersOfAddress()
  const search = query.value.get('search') ?? ''
  const isFiltered = search !== '' || filters.length > 0
  const columns = chosenColumns()
  return (
    <Page title="Persons" aside={<Search label="E-mail, name or distinct ID" />}>
      <FilterChips />
      <List
        title="All persons"
        label="Persons"
        aside={
          <span class="row">
            <AddFilter types={['person']} />
            <ColumnMenu chosen={columns} />
          </span>
        }
        route="project/persons/"
        values={{ search, ...(filters.length > 0 && { properties: JSON.stringify(filters) }), ...pageQuery() }}
        open={({ uuid }) => go(inProjectPath(`/persons/${uuid}`))}
        none={<Nobody isFiltered={isFiltered} />}
        columns={[['Name', (person) => <Name person={person} />], ...columns.map(columnOf)]}
      />
    </Page>
  )
}

function Nobody({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No person matches.">Change the search or remove a filter.</Empty>
  return (
    <Empty title="No people yet." command={curlLine(location.origin, project.value.api_token)}>
      The first event of a distinct ID creates a person.
    </Empty>
  )
}

/**
 * Shows the name of a person with its initials. If a person has no name, the email address or a distinct ID is shown.
 */
function Name({ person: { name, properties } }: { person: Person }) {
  const own = properties['name']
  const words = typeof own === 'string' && own !== '' ? own : name
  return (
    <span class="person">
      <span class="avatar" aria-hidden="true">
        {words === name && properties['email'] === undefined ? '' : initialsOf(words)}
      </span>
      <bdi class="cut">{words}</bdi>
    </span>
  )
}

function initialsOf(name: string): string {
  const words = name.split(/[\s@._-]+/).filter((word) => /^\p{L}/u.test(word))
  return words
    .slice(0, 2)
    .map((word) => [...word][0]?.toUpperCase())
    .join('')
}

/** Returns the columns named in the URL, or else the default columns. */
function chosenColumns(): readonly string[] {
  const given = query.value.get('columns')
  if (given === null) return COLUMNS
  return given.split(',').filter((name) => name !== '')
}

/**
 * Returns the heading of a column. The name comes from the URL, so it may be the name of a member that every object
 * has, such as `constructor`.
 */
function labelOf(name: string): string {
  return (Object.hasOwn(FIXED_LABELS, name) ? FIXED_LABELS[name] : undefined) ?? propertyLabel(name)
}

function columnOf(name: string): Column<Person> {
  const label = labelOf(name)
  if (name === 'distinct_id') return [label, ({ distinct_ids: ids }) => ids[0], 'minor cut']
  if (name === 'first_seen') return [label, 'created_at', 'number ago']
  if (name === 'last_seen') return [label, ({ uuid }) => <LastSeen uuid={uuid} />, 'minor number']
  return [label, ({ properties }) => shownValue(name, properties), name === 'email' ? 'cut' : 'minor cut']
}

/**
 * Returns the text of a property. If the person does not have the property, the initial value of the property is used,
 * which comes from the first event of the person.
 */
function shownValue(key: string, properties: Person['properties']): string {
  const value = properties[key] ?? properties[`$initial_${key.replace(/^\$/, '')}`]
  return valueLabel(key, value) ?? plain(value ?? '')
}

/**
 * The last request for the newest event of a person. A new request waits until this one has ended, because the daemon
 * cannot return the newest events of several persons at once.
 */
let lastRead: Promise<unknown> = Promise.resolve()

/** Shows when the newest event of a person happened. */
function LastSeen({ uuid }: { uuid: string }) {
  const { data } = useLoaded(`last seen ${project.value.id} ${uuid}`, async (signal) => {
    if (!may('event:read')) return null
    const read = () => (signal.aborted ? null : get('project/events/', { person_id: uuid, limit: 1 }, signal))
    const found = lastRead.then(read, read)
    lastRead = found
    return (await found)?.results[0]?.timestamp ?? null
  })
  return <time>{data == null ? '–' : ago(data)}</time>
}

/** A menu with a checkbox for each column. The URL contains the choice. */
function ColumnMenu({ chosen }: { chosen: readonly string[] }) {
  const known = usePropertyNames('person').filter((name) => name !== 'name')
  const fixed = ['email', 'company', '$geoip_country_code', 'distinct_id', 'first_seen', 'last_seen']
  const offered = [...new Set([...fixed, ...chosen, ...known.slice(0, OFFERED_MAX)])]
  function change(name: string, isShown: boolean) {
    const next = isShown ? [...chosen, name] : chosen.filter((one) => one !== name)
    const isUsual = next.join(',') === COLUMNS.join(',')
    setQuery({ columns: isUsual ? null : next.join(',') || ',' }, { replace: true })
  }
  return (
    <>
      <button type="button" class="small" popovertarget="columns">
        Columns
      </button>
      <div class="columns-menu" id="columns" popover="auto">
        <fieldset>
          <legend>Columns</legend>
          {offered.map((name) => (
            <label key={name} class="check">
              <input
                type="checkbox"
                checked={chosen.includes(name)}
                onChange={(event) => change(name, event.currentTarget.checked)}
              />
              <bdi class="cut">{labelOf(name)}</bdi>
            </label>
          ))}
        </fieldset>
      </div>
    </>
  )
}
