/**
 * Annotations in Chromium: marks on the axes of the pages Web, Explore and Dashboard, their texts in the card beside
 * the cursor, and how a click on a day adds, changes and deletes them.
 *
 * @lane browser
 */
import t from 'tap'
import { type ConsoleWindow, openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, fillProject } from '../fixtures/console-data.ts'

const HOSTILE = '<img src=x onerror="globalThis.isHit=1">'
const DAY_MS = 86_400_000

const { daemon, browser } = await startConsole(t)
const { dashboard } = await fillProject(daemon)
const ask = <Body>(method: string, path: string, body?: object) =>
  askApi<Body>(daemon, method, `projects/1/${path}`, body)
await ask('PATCH', '', { timezone: 'Pacific/Apia' })
/** The day in the project's zone that was some days ago. */
const dayOf = (days: number) =>
  new Date(Date.now() - days * DAY_MS).toLocaleDateString('sv', { timeZone: 'Pacific/Apia' })

interface Listed {
  readonly results: readonly {
    readonly id: number
    readonly content: string
    readonly date_marker: string
    readonly scope: string
  }[]
}
const notes = async () => (await ask<Listed>('GET', 'annotations/')).results
const wall = (moment = '') => new Date(moment).toLocaleString('sv', { timeZone: 'Pacific/Apia' })
const marks = ({ page }: ConsoleWindow) => page.locator('.note-mark').count()

if (browser !== null) {
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window

  /** Clicks on the axis below the period at this position, counted from the last one. */
  async function clickAxis(fromEnd: number) {
    const plot = page.locator('.plot svg').first()
    const box = await plot.boundingBox()
    if (box === null) throw new Error('There is no chart.')
    const step = (box.width - 56 - 26) / 6
    await page.mouse.click(box.x + box.width - 26 - fromEnd * step, box.y + 250)
  }

  t.test('a click on a day of the axis adds an annotation, and every chart shows it', async (t) => {
    await window.open('/p/1/web?range=7d')
    await window.settled()
    t.equal(await marks(window), 0)
    await clickAxis(2)
    const dialog = page.getByRole('dialog').first()
    await dialog.getByLabel('Text').fill(HOSTILE)
    t.equal(await dialog.getByLabel('Day').inputValue(), dayOf(2), 'the day of the click')
    await window.answer('Add annotation')
    await window.shows(t, () => marks(window), 1, 'a mark')
    t.notOk(new URL(page.url()).searchParams.get('range')?.includes('..'), 'the range stays')
    const [made] = await notes()
    t.match(made, { content: HOSTILE, scope: 'project' })
    t.equal(wall(made?.date_marker), `${dayOf(2)} 12:00:00`)

    const plot = page.getByRole('img', { name: /^Visitors/ })
    await plot.focus()
    for (const key of ['End', 'ArrowLeft', 'ArrowLeft']) await page.keyboard.press(key)
    t.match(await page.locator('.tip').innerText(), HOSTILE)
    await page.keyboard.press('ArrowLeft')
    t.notMatch(await page.locator('.tip').innerText(), 'img src')

    await window.open(
      `/p/1/explore?way=trends&series=${encodeURIComponent('{"event":"$pageview"}')}&range=7d`,
    )
    await window.shows(t, () => marks(window), 1, 'on Explore')
    await window.open(`/p/1/dashboards/${dashboard}`)
    await window.shows(t, () => marks(window), 1, 'on a dashboard')
    t.equal(await page.evaluate('globalThis.isHit'), undefined)
    window.isSilent(t)
  })

  t.test(
    'the keyboard opens the annotations of a day, which are changed and deleted there',
    async (t) => {
      await window.open('/p/1/web?range=7d')
      await window.shows(t, () => marks(window), 1, 'the mark')
      await page.getByRole('img', { name: /^Visitors/ }).focus()
      for (const key of ['End', 'ArrowLeft', 'ArrowLeft', 'n']) await page.keyboard.press(key)
      const dialog = page.getByRole('dialog').first()
      await dialog.getByText(HOSTILE).waitFor()
      await dialog.getByRole('button', { name: 'Edit' }).click()
      const form = page.getByRole('dialog', { name: 'Edit the annotation' })
      await form.getByLabel('Text').fill('Newsletter')
      await form.getByLabel('Day').fill(dayOf(3))
      await form.getByRole('button', { name: 'Save' }).click()
      await form.waitFor({ state: 'detached' })
      const read = async () => (await notes()).map((one) => one.content)
      await window.shows(t, read, ['Newsletter'], 'changed')
      await page.keyboard.press('Escape')
      await page.getByRole('button', { name: 'Annotations' }).first().click()
      await dialog.getByText('Newsletter').waitFor()
      await dialog.getByRole('button', { name: 'Delete' }).click()
      await window.shows(t, () => marks(window), 0, 'the mark is gone')
      await page.keyboard.press('Escape')
      await page.getByRole('button', { name: 'Undo' }).click()
      await window.shows(t, () => marks(window), 1, 'and comes back')
      const [back] = await notes()
      t.equal(back?.content, 'Newsletter')
      t.equal(wall(back?.date_marker), `${dayOf(3)} 12:00:00`)
      window.isSilent(t)
    },
  )

  t.test('an annotation of another thing is not shown, and a reader changes none', async (t) => {
    const { id: board } = await ask<{ id: number }>('POST', 'dashboards/', { name: 'Other' })
    const marker = `${dayOf(1)}T00:00:00Z`
    await ask('POST', 'annotations/', {
      content: 'Other',
      date_marker: marker,
      dashboard_id: board,
      scope: 'dashboard',
    })
    await ask('POST', 'annotations/', { content: 'No insight', date_marker: marker })
    await window.open('/p/1/web?range=7d')
    await window.shows(t, () => marks(window), 1, 'only that of the project')
    const { value } = await askApi<{ value: string }>(daemon, 'POST', 'personal_api_keys/', {
      label: 'reader',
      scopes: ['query:read', 'annotation:read', 'project:read'],
    })
    const reader = await openWindow(browser, { url: daemon.url, key: value })
    await reader.open('/p/1/web?range=7d')
    await reader.shows(t, () => marks(reader), 1, 'the reader sees it')
    await reader.page.getByRole('button', { name: 'Annotations' }).first().click()
    await reader.page.getByRole('dialog').getByText('Newsletter').waitFor()
    t.equal(await reader.page.getByRole('dialog').getByRole('button').count(), 1, 'only "Close"')
    reader.isSilent(t)
  })
}
