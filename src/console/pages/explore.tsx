/** Explore: a question about events on the left, its answer on the right, both in the address. */

import { useState } from 'preact/hooks'
import {
  askQuery,
  Card,
  Choice,
  ConfirmButton,
  href,
  may,
  Page,
  pageOf,
  post,
  project,
  RangePicker,
  Shown,
  say,
  Tabs,
  TextField,
  useGet,
  useLoaded,
  withQuery,
} from '../kit.ts'
import { Answer } from '../parts/answers.tsx'
import { Builder } from './explore/builder.tsx'
import { question, WAYS, way } from './explore/question.ts'

/** The page. */
export default function ExplorePage() {
  const asked = question.value
  const loaded = useLoaded(`${project.value.id} ${JSON.stringify(asked)}`, async (signal) => ({
    query: asked,
    results: await askQuery<unknown>(asked, signal),
  }))
  const words = WAYS.find(([one]) => one === way.value)?.[1] ?? ''
  return (
    <Page title="Explore" aside={way.value === 'retention' ? null : <RangePicker compares={way.value === 'trends'} />}>
      <Tabs label="Ways to look" tabs={WAYS} chosen={way.value} to={(value) => href(withQuery({ way: value }))} />
      <div class="split">
        <Builder />
        <Card title={words} aside={may('insight:write') ? <SaveInsight /> : null}>
          <Shown of={loaded}>{(data) => <Answer {...data} />}</Shown>
        </Card>
      </div>
    </Page>
  )
}

function SaveInsight() {
  const [name, setName] = useState('')
  const [dashboard, setDashboard] = useState('')
  const { data } = useGet('project/dashboards/', {})
  return (
    <ConfirmButton
      label="Save"
      title="Save this as an insight"
      isDangerous={false}
      submit={async () => {
        const { persons_urls: _, ...source } = question.value
        const body = { name, saved: true, query: { kind: 'InsightVizNode', source } }
        const onto = dashboard === '' ? {} : { dashboards: [Number(dashboard)] }
        await post('project/insights/', {}, { ...body, ...onto })
        say(`Insight “${name}” saved.`)
      }}
    >
      <TextField label="Name" value={name} change={setName} isRequired />
      <Choice
        label="On the dashboard"
        value={dashboard}
        options={[
          ['', 'none'],
          ...(data?.results ?? []).map(({ id, name: title }) => [String(id), String(title ?? id)] as const),
        ]}
        change={setDashboard}
        hint={<a href={pageOf('/dashboards')}>All dashboards</a>}
      />
    </ConfirmButton>
  )
}
