/** Feature flags: which are on, for how many, and how they are doing. */

import { useState } from 'preact/hooks'
import {
  ago,
  Bar,
  Card,
  Check,
  type Column,
  ConfirmButton,
  Empty,
  go,
  href,
  inProjectPath,
  may,
  Page,
  Pager,
  pageQuery,
  patch,
  percent,
  post,
  query,
  Search,
  type Shapes,
  Shown,
  say,
  Table,
  Tabs,
  TextField,
  useGet,
  withQuery,
} from '../kit.ts'

type Flag = Shapes['FeatureFlag']

const STATES = [
  ['', 'All'],
  ['true', 'On'],
  ['false', 'Off'],
  ['STALE', 'Stale'],
] as const

/** The page. */
export default function FlagsPage() {
  const state = query.value.get('state') ?? ''
  const asked = {
    search: query.value.get('search') ?? '',
    ...(state === '' ? {} : { active: state }),
    ...pageQuery(),
  }
  const loaded = useGet('project/feature_flags/', asked)
  return (
    <Page
      title="Flags"
      aside={
        <>
          <Search label="Key or name" />
          {may('feature_flag:write') ? <NewFlag /> : null}
        </>
      }
    >
      <Card
        title="Feature flags"
        aside={
          <Tabs
            label="State"
            tabs={STATES}
            chosen={state}
            to={(next) => href(withQuery({ state: next, offset: null }))}
          />
        }
      >
        <Shown of={loaded}>
          {({ results, count }) => (
            <>
              <Table
                label="Feature flags"
                rows={results}
                keyOf={({ id }) => id}
                open={({ id }) => go(inProjectPath(`/flags/${id}`))}
                none={
                  <Empty title="No flag here.">
                    A flag switches something on for some, and is decided in microseconds.
                  </Empty>
                }
                columns={columnsOf(loaded.reload)}
              />
              <Pager count={count} />
            </>
          )}
        </Shown>
      </Card>
    </Page>
  )
}

function columnsOf(reload: () => void): readonly Column<Flag>[] {
  return [
    { head: 'On', cell: (flag) => <OnOff flag={flag} reload={reload} /> },
    {
      head: 'Key',
      cell: ({ key, name }) => (
        <>
          <b>{key}</b>
          {name !== '' && name !== key ? <div class="quiet">{name}</div> : null}
        </>
      ),
    },
    { head: 'For', cell: (flag) => <Reach flag={flag} /> },
    {
      head: 'State',
      isMinor: true,
      cell: ({ status }) => <span class={status === 'STALE' ? 'badge bad' : 'badge off'}>{status.toLowerCase()}</span>,
    },
    { head: 'Tags', isMinor: true, cell: ({ tags }) => tags.join(', ') },
    {
      head: 'Changed',
      isMinor: true,
      isNumber: true,
      cell: ({ updated_at: at }) => ago(at),
    },
  ]
}

function OnOff({
  flag: { id, key, active, can_edit: canEdit },
  reload,
}: {
  readonly flag: Flag
  readonly reload: () => void
}) {
  async function set(is: boolean) {
    await patch('project/feature_flags/{id}/', { id }, { active: is })
    say(`${key} is ${is ? 'on' : 'off'}.`)
    reload()
  }
  const isDisabled = !(canEdit && may('feature_flag:write'))
  return (
    <Check
      isSwitch
      isQuiet
      isDisabled={isDisabled}
      label={`${key} is on`}
      value={active}
      change={(is) => void set(is).catch(({ message }) => say(String(message)))}
    />
  )
}

/** How far a flag reaches: the largest share that one of its conditions lets through. */
function Reach({ flag: { filters } }: { readonly flag: Flag }) {
  const groups = filters.groups ?? []
  const largest = Math.max(0, ...groups.map(({ rollout_percentage: share }) => share ?? 100))
  const isForAll = groups.some(({ properties }) => (properties ?? []).length === 0)
  const variants = filters.multivariate?.variants?.length ?? 0
  const words = groups.length === 0 ? 'nobody' : `${isForAll ? '' : 'some, '}${percent(largest / 100, 0)}`
  return (
    <Bar share={largest / 100}>
      {words}
      {variants > 0 ? `, ${variants} variants` : ''}
    </Bar>
  )
}

function NewFlag() {
  const [key, setKey] = useState('')
  return (
    <ConfirmButton
      label="New flag"
      title="A new flag"
      action="Make it"
      isDangerous={false}
      submit={async () => {
        const body = {
          key,
          name: key,
          active: false,
          filters: { groups: [{ properties: [], rollout_percentage: 0 }] },
        }
        const { id } = await post('project/feature_flags/', {}, body)
        go(inProjectPath(`/flags/${id}`))
      }}
    >
      <TextField
        label="Key"
        value={key}
        change={setKey}
        isRequired
        hint="What code asks for. It begins switched off, for nobody."
      />
    </ConfirmButton>
  )
}
