/** The list of feature flags, with their state and their reach. */
import {
  Ask,
  act,
  Bar,
  Check,
  Empty,
  go,
  inProjectPath,
  List,
  may,
  Page,
  pageQuery,
  patch,
  percent,
  post,
  query,
  Search,
  type Shapes,
  Tabs,
} from '../kit.ts'

type Flag = Shapes['FeatureFlag']

const STATES = [
  ['', 'All'],
  ['true', 'On'],
  ['false', 'Off'],
  ['STALE', 'Stale'],
] as const

/** The page "Flags". */
export default function FlagsPage() {
  const state = query.value.get('state') ?? ''
  const search = query.value.get('search') ?? ''
  const controls = (
    <>
      <Search label="Key or name" />
      {may('feature_flag:write') && <NewFlag />}
    </>
  )
  return (
    <Page title="Flags" aside={controls}>
      <List
        title="Feature flags"
        route="project/feature_flags/"
        values={{ search, ...(state !== '' && { active: state }), ...pageQuery() }}
        aside={<Tabs label="State" tabs={STATES} parameter="state" without={['offset']} />}
        open={({ id }) => go(inProjectPath(`/flags/${id}`))}
        none={
          <Empty title="No flag here.">A flag switches something on for some, and is decided in microseconds.</Empty>
        }
        columns={[
          ['On', (flag) => <OnOff flag={flag} />],
          ['Key', (flag) => <Name flag={flag} />],
          ['For', (flag) => <Reach flag={flag} />],
          ['Tags', ({ tags }) => tags.join(', '), 'minor cut'],
          ['Changed', 'updated_at', 'minor number ago'],
        ]}
      />
    </Page>
  )
}

function Name({ flag: { key, name, status } }: { flag: Flag }) {
  return (
    <>
      <b>{key}</b> {status === 'STALE' && <span class="badge bad">stale</span>}
      {name !== '' && name !== key && <div class="quiet cut">{name}</div>}
    </>
  )
}

function OnOff({ flag: { id, key, active, can_edit: canEdit } }: { flag: Flag }) {
  const set = (is: boolean) =>
    act(patch('project/feature_flags/{id}/', { id }, { active: is }), `${key} is ${is ? 'on' : 'off'}.`)
  const isDisabled = !(canEdit && may('feature_flag:write'))
  const label = `${key} is on`
  return <Check isSwitch isQuiet {...{ isDisabled, label }} value={active} change={set} />
}

/** Shows the reach of a flag, which is the largest rollout percentage of its conditions. */
function Reach({ flag: { filters } }: { flag: Flag }) {
  const groups = filters.groups ?? []
  const largest = Math.max(0, ...groups.map(({ rollout_percentage: share }) => share ?? 100))
  const isForAll = groups.some(({ properties }) => (properties ?? []).length === 0)
  const variants = filters.multivariate?.variants?.length ?? 0
  const words = groups.length === 0 ? 'nobody' : `${isForAll ? '' : 'some, '}${percent(largest / 100, 0)}`
  return (
    <Bar share={largest / 100}>
      {words}
      {variants > 0 && `, ${variants} variants`}
    </Bar>
  )
}

function NewFlag() {
  const hint = 'What code asks for. It begins switched off, for nobody.'
  return (
    <Ask
      label="New flag"
      title="A new flag"
      action="Make it"
      fields={{ key: { label: 'Key', isRequired: true, hint } }}
      submit={async ({ key }) => {
        const filters = { groups: [{ properties: [], rollout_percentage: 0 }] }
        const { id } = await post('project/feature_flags/', {}, { key, name: key, active: false, filters })
        go(inProjectPath(`/flags/${id}`))
      }}
    />
  )
}
