/** Finds persons by a part of an e-mail address, a name or a distinct_id, and by their properties. */
import {
  AddFilter,
  Empty,
  FilterChips,
  filtersOfAddress,
  go,
  inProjectPath,
  List,
  Page,
  pageQuery,
  query,
  Search,
} from '../kit.ts'

/** Shows the name, with the e-mail address below it if it differs. */
function Name({ name, email }: { name: string; email: unknown }) {
  return (
    <>
      <bdi class="cut">{name}</bdi>
      {typeof email === 'string' && email !== name && <div class="quiet cut">{email}</div>}
    </>
  )
}

const CAPTURE = `curl "$TENREC/capture/" -H 'Content-Type: application/json' \\
  -d '{"api_key":"phc_...","event":"hello","distinct_id":"me"}'`

/** The page "Persons". */
export default function PersonsPage() {
  const filters = filtersOfAddress()
  const search = query.value.get('search') ?? ''
  const nobody = (
    <Empty title="Nobody found." command={CAPTURE}>
      A person is made by the first event of a distinct_id.
    </Empty>
  )
  return (
    <Page title="Persons" aside={<Search label="E-mail, name, distinct_id" />}>
      <FilterChips />
      <List
        title="Persons"
        aside={<AddFilter types={['person']} />}
        route="project/persons/"
        values={{ search, ...(filters.length > 0 && { properties: JSON.stringify(filters) }), ...pageQuery() }}
        open={({ uuid }) => go(inProjectPath(`/persons/${uuid}`))}
        none={nobody}
        columns={[
          ['Name', ({ name, properties }) => <Name name={name} email={properties['email']} />],
          ['distinct_id', ({ distinct_ids: ids }) => ids[0], 'minor cut'],
          ['First seen', 'created_at', 'number ago'],
        ]}
      />
    </Page>
  )
}
