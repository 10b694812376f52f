/**
 * Cohorts by behavior in the console, in Chromium: the fields of a rule, the size, counting again, and what uses a
 * cohort.
 *
 * @lane browser
 */
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, capture } from '../fixtures/console-data.ts'

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
      { event: 'cancelled', distinct_id: 'ann', properties: {} },
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
    await first.getByLabel('Event', { exact: true }).nth(1).fill('cancelled')
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
                { key: 'cancelled', negation: true },
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
    const regular = {
      type: 'behavioral',
      key: 'bought',
      event_type: 'events',
      value: 'performed_event_regularly',
      operator: 'gte',
      operator_value: 1,
      time_value: 1,
      time_interval: 'week',
      min_periods: 2,
      total_periods: 4,
    }
    const filters = { properties: { type: 'AND', values: [{ type: 'AND', values: [regular] }] } }
    const { id } = await askApi<StoredCohort>(daemon, 'POST', 'projects/1/cohorts/', {
      name: 'Regular',
      filters,
    })
    await window.open(`/p/1/cohorts?id=${id}`)
    await dialog
      .getByText('did “bought” at least once in 2 of the last 4 periods of 1 week')
      .waitFor()
    await dialog.getByText('Only the API can change this condition.').waitFor()
    await dialog.getByLabel('Name', { exact: true }).fill('Regulars')
    await window.answer('Save cohort')
    await page.getByText('Cohort saved.').waitFor()
    t.strictSame((await stored('Regulars')).filters.properties.values, filters.properties.values)
    window.isSilent(t)
  })
}
