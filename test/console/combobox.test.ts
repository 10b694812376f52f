/**
 * Fields with suggestions in Chromium: all names are offered whatever text is in the field, a name is used once the
 * user has chosen it or typed it completely, and the list works with the keyboard and for screen readers.
 *
 * @lane browser
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { fillProject } from '../fixtures/console-data.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const { daemon, browser } = await startConsole(t)
await fillProject(daemon)

if (browser !== null) {
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window
  await page.addInitScript({ content: AXE })
  const queries: string[] = []
  page.on('request', (request) => {
    if (request.url().endsWith('/query/')) queries.push(request.postData() ?? '')
  })
  const event = page.getByLabel('Event A', { exact: true })
  const list = page.getByRole('listbox', { name: 'Suggestions' })
  const options = () => list.getByRole('option').allInnerTexts()

  t.test('all events are offered while the field holds one of them', async (t) => {
    await window.open('/p/1/explore')
    await window.settled()
    await event.click()
    await window.shows(t, async () => (await options()).length > 4, true, 'a list')
    const shown = (await options()).map((one) => one.split('\n')[0])
    for (const name of ['All events', 'signed up', 'bought', '$pageview'])
      t.ok(shown.includes(name), name)
    t.equal(await event.inputValue(), '$pageview')
    const { violations } = (await page.evaluate(`axe.run(document)`)) as AxeResults
    const found = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    t.strictSame(
      found.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`)),
      [],
    )
    await page.keyboard.press('Escape')
    await list.waitFor({ state: 'detached' })
    window.isSilent(t)
  })

  t.test('nothing is asked, and the address keeps its event, while a reader types', async (t) => {
    const address = page.url()
    queries.length = 0
    await event.pressSequentially('bou')
    await window.shows(
      t,
      async () => (await options())[0]?.split('\n')[0],
      'bought',
      'the best match',
    )
    t.strictSame(queries, [])
    t.equal(page.url(), address)
    await page.keyboard.press('Enter')
    await page.waitForURL(/bought/)
    await window.settled()
    t.equal(await event.inputValue(), 'bought')
    t.equal(queries.length, 1, 'one choice, one query')
    t.match(queries[0], /"event":"bought"/)

    await event.click()
    await event.pressSequentially('xyz')
    await page.keyboard.press('Escape')
    t.equal(await event.inputValue(), 'bought', 'Escape gives the last choice back')
    await event.fill('never seen')
    await page.keyboard.press('Tab')
    await page.waitForURL(/never\+seen/)
    t.equal(await event.inputValue(), 'never seen', 'any name is allowed')
    await page.goBack()
    await window.shows(t, () => event.inputValue(), 'bought', 'one step back is one choice')
    window.isSilent(t)
  })

  t.test('arrow keys move through the list, and the last choices come first', async (t) => {
    await window.open('/p/1/explore')
    await window.settled()
    await event.click()
    await list.waitFor()
    t.equal((await options())[0]?.split('\n')[0], 'bought', 'the last choice')
    await list.getByRole('group', { name: 'Recent' }).waitFor()
    await event.pressSequentially('i')
    await page.keyboard.press('ArrowDown')
    const active = await event.getAttribute('aria-activedescendant')
    const chosen = page.locator(`[id="${active}"]`)
    t.equal(await chosen.getAttribute('aria-selected'), 'true')
    const name = (await chosen.innerText()).split('\n')[0]
    await page.keyboard.press('Enter')
    await window.shows(t, () => event.inputValue(), name, 'the active option')
    window.isSilent(t)
  })

  t.test(
    'properties of persons are offered for persons, and those of events for events',
    async (t) => {
      await window.open('/p/1/explore')
      await window.settled()
      const property = page.getByLabel('Break down by property')
      await property.click()
      await window.shows(t, async () => (await options()).includes('amount'), true, 'of events')
      t.notOk((await options()).includes('email'))
      await page.keyboard.press('Escape')
      await page.getByLabel('Owner of the property').selectOption('person')
      await property.click()
      await window.shows(t, async () => (await options()).includes('email'), true, 'of persons')
      t.notOk((await options()).includes('amount'))
      await property.pressSequentially('pla')
      await page.keyboard.press('Enter')
      await page.waitForURL(/by=person%3Aplan/)
      await window.settled()
      window.isSilent(t)
    },
  )
}
