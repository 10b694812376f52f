/**
 * Cohorts by behavior in the console, in Chromium: the fields of a rule for every kind of behavior, the size, counting
 * again, and what uses a cohort.
 *
 * @lane browser
 */
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, capture, STRANGE } from '../fixtures/console-data.ts'

const DAY_MS = 86_400_000
const { daemon, browser } = await startConsole(t)
const window = browser && (await openWindow(browser, { url: daemon.url }))

interface StoredCohort {
  readonly id: number
  readonly name: string
  readonly filters: { readonly properties: { readonly values: readonly unknown[] } }
}

if (window !== null) {
  const { page } = window
  const dialog = page.getByRole('dialog')
  /** Returns the fieldset of a group by its heading. */
  const group = (name: string) => dialog.getByRole('group', { name, exact: true })
  const stored = async (name: string): Promise<StoredCohort> => {
    const { results } = await askApi<{ results: readonly StoredCohort[] }>(
      daemon,
      'GET',
      'projects/1/cohorts/',
    )
    const found = results.find((one) => one.name === name)
    if (found === undefined) throw new Error(`there is no cohort ${name}`)
    return found
  }
  const sizes = async () =>
    (await window.rows('Cohorts')).map(([name, , size]) => [name, size]).toSorted()

  t.test('a rule on events is put together, counted and used', async (t) => {
    const bought = (distinct_id: string, days: number, plan: string) => ({
      event: 'bought',
      distinct_id,
      timestamp: new Date(Date.now() - days * DAY_MS).toISOString(),
      properties: { plan, $set: { country: plan === 'pro' ? 'DE' : 'US' } },
    })
    const events = [
      bought('ann', 1, 'pro'),
      bought('ann', 2, 'pro'),
      bought('bob', 1, 'pro'),
      bought('bob', 2, 'free'),
      bought('cat', 1, 'free'),
      bought('cat', 90, 'free'),
      { event: 'canceled', distinct_id: 'ann', properties: {} },
    ]
    await capture(daemon, events, events.length)
    await window.open('/p/1/cohorts')
    await window.press('New cohort')
    await dialog.getByLabel('Name', { exact: true }).fill('Buyers')
    await window.answer('Create cohort')
    await page.getByText('Choose an event, or remove the condition.').waitFor()
    const first = group('People who match')
    await first.getByLabel('Event', { exact: true }).fill('bought')
    await page.keyboard.press('Enter')
    await first.getByLabel('Times', { exact: true }).fill('2')
    await window.answer('Create cohort')
    await window.shows(t, sizes, [['Buyers', '2']], 'counted in the background')
    const [[, rule] = []] = await window.rows('Cohorts')
    t.equal(rule, 'did “bought” at least 2 times in the last 30 days')

    await page.getByText('Buyers', { exact: true }).click()
    await dialog.getByText('2 people').waitFor()
    await dialog.getByText(/^Counted /).waitFor()
    await dialog.getByRole('button', { name: /^\+ Event filter/ }).click()
    const ofEvent = dialog.getByRole('group', { name: 'Only events where' })
    await ofEvent.getByLabel('Property').fill('plan')
    await ofEvent.getByLabel('Value').fill('pro')
    await page.keyboard.press('Tab')
    await window.answer('Save cohort')
    await dialog.getByText('1 person').waitFor()

    await dialog.getByRole('button', { name: /^\+ Condition/ }).click()
    const kinds = first.getByLabel('People who', { exact: true })
    await kinds.nth(1).selectOption('Did not do the event')
    await first.getByLabel('Event', { exact: true }).nth(1).fill('canceled')
    await page.keyboard.press('Enter')
    await window.answer('Save cohort')
    await dialog.getByText('0 people').waitFor()

    await window.answer('+ Group')
    await group('Group 2')
      .getByLabel('People who', { exact: true })
      .selectOption('Has the property')
    await group('Group 2').getByLabel('Property', { exact: true }).fill('country')
    await group('Group 2').getByLabel('Value', { exact: true }).fill('US')
    await page.keyboard.press('Tab')
    await dialog.getByLabel('People match', { exact: true }).selectOption('any group')
    await window.answer('Save cohort')
    await dialog.getByText('2 people').waitFor()
    t.match(await stored('Buyers'), {
      filters: {
        properties: {
          type: 'OR',
          values: [
            {
              type: 'AND',
              values: [
                {
                  key: 'bought',
                  operator: 'gte',
                  operator_value: 2,
                  event_filters: [{ key: 'plan', value: 'pro' }],
                },
                { key: 'canceled', negation: true },
              ],
            },
            { type: 'AND', values: [{ type: 'person', key: 'country', value: 'US' }] },
          ],
        },
      },
    })
    window.isSilent(t)
  })

  t.test('a cohort is counted again, and shows what uses it', async (t) => {
    const { id } = await stored('Buyers')
    const inBuyers = { key: 'id', type: 'cohort', value: id, operator: 'in' }
    await askApi(daemon, 'POST', 'projects/1/feature_flags/', {
      key: 'for-buyers',
      filters: { groups: [{ properties: [inBuyers], rollout_percentage: 100 }] },
    })
    await askApi(daemon, 'POST', 'projects/1/cohorts/', {
      name: 'Outer',
      filters: [{ ...inBuyers, operator: undefined }],
    })
    const events = [{ event: 'seen', distinct_id: 'dan', properties: { $set: { country: 'US' } } }]
    await capture(daemon, events, 8)
    await window.open(`/p/1/cohorts?id=${id}`)
    await dialog.getByText('2 people').waitFor()
    await dialog.getByText('Used by').waitFor()
    t.ok(await dialog.getByRole('link', { name: 'for-buyers' }).isVisible())
    t.ok(await dialog.getByRole('link', { name: 'Outer' }).isVisible())
    await window.answer('Count again')
    await dialog.getByText('3 people').waitFor()
    await dialog.getByText('3 people').click()
    await page.waitForURL('**/persons?*')
    await window.shows(t, async () => (await window.rows('Persons')).length, 3, 'the members')
    window.isSilent(t)
  })

  t.test('a condition that the fields cannot show is kept', async (t) => {
    const dated = {
      type: 'behavioral',
      key: 'bought',
      event_type: 'events',
      value: 'performed_event',
      explicit_datetime: '2026-01-01',
    }
    const filters = { properties: { type: 'AND', values: [{ type: 'AND', values: [dated] }] } }
    const { id } = await askApi<StoredCohort>(daemon, 'POST', 'projects/1/cohorts/', {
      name: 'Dated',
      filters,
    })
    await window.open(`/p/1/cohorts?id=${id}`)
    await dialog.getByText('did “bought” since 2026-01-01').waitFor()
    await dialog.getByText('Only the API can change this condition.').waitFor()
    await dialog.getByLabel('Name', { exact: true }).fill('Buyers of 2026')
    await window.answer('Save cohort')
    await page.getByText('Cohort saved.').waitFor()
    const saved = await stored('Buyers of 2026')
    t.strictSame(saved.filters.properties.values, filters.properties.values)
    window.isSilent(t)
  })

  t.test('every kind of behavior has fields, for events and for actions', async (t) => {
    const [strange = ''] = STRANGE
    const action = await askApi<{ readonly id: number }>(daemon, 'POST', 'projects/1/actions/', {
      name: strange,
      steps: [{ event: 'bought' }],
    })
    await window.open('/p/1/cohorts')
    await window.press('New cohort')
    await dialog.getByLabel('Name', { exact: true }).fill('Every kind')
    const fields = group('People who match')
    const kind = fields.getByLabel('People who', { exact: true })
    /** Types into the field of an event, and takes the suggestion that fits best. */
    const pick = async (label: string, words: string) => {
      await fields.getByLabel(label, { exact: true }).fill(words)
      await page.keyboard.press('Enter')
    }
    const set = (label: string, words: string) =>
      fields.getByLabel(label, { exact: true }).fill(words)
    await pick('Event', strange)

    await kind.selectOption('Did two events in order')
    await pick('And then', 'canceled')
    await set('Within', '2')
    await fields.getByLabel('Unit of “Within”').selectOption('weeks')
    await window.answer('Create cohort')
    const rule = async () => (await window.rows('Cohorts')).find(([name]) => name === 'Every kind')
    const says = (words: string) =>
      window.shows(
        t,
        async () => (await rule())?.[1],
        `did the action “${strange}” ${words}`,
        words,
      )
    await says('and within 2 weeks “canceled”, in the last 30 days')
    const values = async () => {
      const [first] = (await stored('Every kind')).filters.properties.values
      return (first as { readonly values: readonly object[] }).values
    }
    const common = { type: 'behavioral', key: String(action.id), event_type: 'actions' }
    const month = { time_value: 30, time_interval: 'day' }
    t.strictSame(await values(), [
      {
        ...common,
        value: 'performed_event_sequence',
        ...month,
        seq_event: 'canceled',
        seq_event_type: 'events',
        seq_time_value: 2,
        seq_time_interval: 'week',
      },
    ])

    await page.getByText('Every kind', { exact: true }).click()
    await kind.selectOption('Did the event regularly')
    await fields.getByLabel('How often', { exact: true }).selectOption('more than')
    await set('Times', '2')
    await set('In at least', '5')
    await window.answer('Save cohort')
    await page.getByText('The event cannot be in more periods than there are.').waitFor()
    await set('Of the last', '6')
    await window.answer('Save cohort')
    await says('more than 2 times in 5 of the last 6 periods of 1 week')
    t.match(await values(), [
      {
        ...common,
        value: 'performed_event_regularly',
        operator: 'gt',
        operator_value: 2,
        min_periods: 5,
        total_periods: 6,
        time_value: 1,
        time_interval: 'week',
      },
    ])

    await kind.selectOption('Stopped doing the event')
    await set('But not in the last', '30')
    await window.answer('Save cohort')
    await page.getByText('The second time of a condition must be shorter').waitFor()
    await set('But not in the last', '10')
    await window.answer('Save cohort')
    await says('in the last 30 days, but not in the last 10 days')
    const recent = { seq_time_value: 10, seq_time_interval: 'day' }
    t.match(await values(), [{ ...common, value: 'stopped_performing_event', ...month, ...recent }])

    await kind.selectOption('Started doing the event again')
    await set('But again in the last', '3')
    await window.answer('Save cohort')
    await says('again in the last 3 days after none in the last 30 days')

    await kind.selectOption('Did the event for the first time')
    await window.answer('Save cohort')
    await says('for the first time in the last 30 days')
    t.strictSame(await values(), [{ ...common, value: 'performed_event_first_time', ...month }])
    t.equal(await page.evaluate('globalThis.isHit'), undefined, 'the name of the action is text')
    window.isSilent(t)
  })
}
