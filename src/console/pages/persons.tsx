/** Persons: found by a part of an e-mail, a name or a distinct_id, and by their properties. */
import {
  AddFilter,
  ago,
  Empty,
  FilterChips,
  filtersOfAddress,
  go,
  inProjectPath,
  Page,
  Pager,
  pageQuery,
  plain,
  query,
  Search,
  Shown,
  Table,
  TakeAlong,
  useGet,
} from '../kit.ts'

const CAPTURE = `curl "$TENREC/capture/" -H 'Content-Type: application/json' \\
  -d '{"api_key":"phc_...","event":"hello","distinct_id":"me"}'`

/** The page. */
export default function PersonsPage() {
  const filters = filtersOfAddress()
  const asked = {
    search: query.value.get('search') ?? '',
    ...(filters.length === 0 ? {} : { properties: JSON.stringify(filters) }),
    ...pageQuery(),
  }
  const loaded = useGet('project/persons/', asked)
  return (
    <Page title="Persons" aside={<Search label="E-mail, name, distinct_id" />}>
      <FilterChips />
      <AddFilter types={['person']} />
      <Shown of={loaded}>
        {({ results, count }) => (
          <>
            <Table
              label="Persons"
              rows={results}
              keyOf={({ uuid }) => uuid}
              open={({ uuid }) => go(inProjectPath(`/persons/${uuid}`))}
              none={
                <Empty title="Nobody found." command={CAPTURE}>
                  A person is made by the first event of a distinct_id.
                </Empty>
              }
              columns={[
                { head: 'Name', cell: ({ name }) => name },
                {
                  head: 'E-mail',
                  isMinor: true,
                  cell: ({ properties }) => plain(properties['email']),
                },
                {
                  head: 'distinct_id',
                  isMinor: true,
                  cell: ({ distinct_ids: ids }) => ids[0] ?? '',
                },
                { head: 'First seen', isNumber: true, cell: ({ created_at: at }) => ago(at) },
              ]}
            />
            <Pager count={count} />
            <TakeAlong
              name="persons"
              head={['uuid', 'name', 'distinct_id', 'created_at', 'properties']}
              rows={() =>
                results.map((one) => [one.uuid, one.name, one.distinct_ids[0], one.created_at, one.properties])
              }
            />
          </>
        )}
      </Shown>
    </Page>
  )
}
