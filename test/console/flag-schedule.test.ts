/**
 * The schedule of a flag in Chromium: a gradual rollout with its preview, steps that the daemon makes while the page is
 * open, halting and resuming, a change at a set time, and canceling.
 *
 * @lane browser
 */
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, fillProject } from '../fixtures/console-data.ts'

const { daemon, browser } = await startConsole(t)
await fillProject(daemon)

interface Shown {
  readonly id: number
  readonly active: boolean
  readonly filters: { readonly groups: readonly { readonly rollout_percentage: number }[] }
}

function makeFlag(key: string): Promise<Shown> {
  const filters = { groups: [{ properties: [], rollout_percentage: 0 }] }
  return askApi(daemon, 'POST', 'projects/1/feature_flags/', { key, active: false, filters })
}

const flagOf = (id: number): Promise<Shown> =>
  askApi(daemon, 'GET', `projects/1/feature_flags/${id}/`)

if (browser !== null) {
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window

  t.test('a rollout shows what its steps change, and makes them', async (t) => {
    const { id } = await makeFlag('rolled')
    await window.open(`/p/1/flags/${id}?tab=schedule`)
    await page.getByText('Nothing is scheduled.').waitFor()
    await window.press('Roll out safely')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Steps in %').fill('10, 1000')
    await dialog.getByText('Write percentages from 0 to 100, with commas.').waitFor()
    await dialog.getByLabel('Steps in %').fill('50, 100')
    await dialog.getByText('The first step switches the flag on.').waitFor()
    await window.shows(
      t,
      async () => (await window.rows('What each step changes')).map(([step]) => step),
      ['50 %', '100 %'],
      'the preview has both steps',
    )
    const steps = await window.rows('What each step changes')
    const gained = steps.reduce((sum, [, count]) => sum + Number(count?.replace(/\D/g, '')), 0)
    t.equal(gained, Number(steps[1]?.[3]?.replace(/\D/g, '')), 'each person gains the flag once')
    await window.answer('Start the rollout')
    await page.getByText('rolled is rolled out in 2 steps.').waitFor()
    await page.getByText('Turns back if more people with the flag').waitFor()
    await window.shows(
      t,
      async () => (await window.rows('Steps')).map(([share, made]) => `${share}, ${made !== '–'}`),
      ['50 %, true', '100 %, false'],
      'the first step is made while the page is open',
    )
    t.match(await flagOf(id), { active: true, filters: { groups: [{ rollout_percentage: 50 }] } })
    await window.press('Halt')
    await page.getByText('A person halted the ramp.').waitFor()
    await window.press('Continue')
    await page.getByText('The rollout goes on.').waitFor()
    await window.press('Cancel')
    await window.answer('Cancel what is left')
    await page.getByText('Nothing is scheduled.').waitFor()
    t.match(await flagOf(id), { filters: { groups: [{ rollout_percentage: 50 }] } })
    window.isSilent(t)
  })

  t.test('a change at a time', async (t) => {
    const { id } = await makeFlag('timed')
    await window.open(`/p/1/flags/${id}?tab=schedule`)
    await window.press('Change at a time')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Time').fill('2099-01-31T12:30')
    await dialog.getByLabel('Repeat').selectOption('monthly')
    await window.answer('Schedule')
    await page.getByText('31 Jan 2099').waitFor()
    const { results } = await askApi<{ results: readonly object[] }>(
      daemon,
      'GET',
      `projects/1/scheduled_changes/?record_id=${id}`,
    )
    t.match(results, [
      {
        payload: { operation: 'update_status', value: true },
        scheduled_at: /^2099-01-31T/,
        is_recurring: true,
        recurrence_interval: 'monthly',
      },
    ])
    window.isSilent(t)
  })
}
