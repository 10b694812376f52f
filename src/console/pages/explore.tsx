/** The page "Explore", with a query builder on the left and the answer on the right. Both are stored in the URL. */
import {
  Ask,
  askQuery,
  Card,
  may,
  Page,
  pageOf,
  post,
  project,
  RangePicker,
  Shown,
  say,
  Tabs,
  useGet,
  useLoaded,
} from '../kit.ts'
import { Answer } from '../parts/answers.tsx'
import { Builder } from './explore/builder.tsx'
import { question, WAYS, way } from './explore/question.ts'

/** The page "Explore". */
export default function ExplorePage() {
  const asked = question.value
  const loaded = useLoaded(`${project.value.id} ${JSON.stringify(asked)}`, async (signal) => ({
    query: asked,
    results: await askQuery<unknown>(asked, signal),
  }))
  const words = WAYS.find(([one]) => one === way.value)?.[1] ?? ''
  return (
    <Page title="Explore" aside={way.value !== 'retention' && <RangePicker compares={way.value === 'trends'} />}>
      <Tabs label="Ways to look" tabs={WAYS} parameter="way" />
      <div class="split">
        <Builder />
        <Card title={words} aside={may('insight:write') && <SaveInsight />}>
          <Shown of={loaded}>{(data) => <Answer {...data} />}</Shown>
        </Card>
      </div>
    </Page>
  )
}

function SaveInsight() {
  const { data } = useGet('project/dashboards/')
  const dashboards = (data?.results ?? []).map(({ id, name }) => [String(id), String(name ?? id)] as const)
  const hint = <a href={pageOf('/dashboards')}>All dashboards</a>
  return (
    <Ask
      label="Save"
      title="Save this as an insight"
      fields={{
        name: { label: 'Name', isRequired: true },
        onto: { kind: 'choice', label: 'On the dashboard', options: [['', 'none'], ...dashboards], hint },
      }}
      submit={async ({ name, onto }) => {
        const { persons_urls: _, ...source } = question.value
        const body = { name, saved: true, query: { kind: 'InsightVizNode', source } }
        await post('project/insights/', {}, { ...body, ...(onto !== '' && { dashboards: [Number(onto)] }) })
        say(`Insight “${name}” saved.`)
      }}
    />
  )
}
