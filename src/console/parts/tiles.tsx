/** The building blocks of pages: cards, tabs, and tiles that show a single number. */
import type { ComponentChildren } from 'preact'
import { href, query, withQuery } from '../base/address.ts'
import { percent } from '../base/format.ts'
import type { Options } from './fields.tsx'

interface TileProps {
  readonly label: string
  /** The relative change since the previous period. */
  readonly change?: number | null
  readonly isLessBetter?: boolean
  readonly children: ComponentChildren
}

/** A tile with a label, a number, and the change of the number. */
export function Tile({ label, children, change, isLessBetter = false }: TileProps) {
  const isUp = (change ?? 0) > 0
  const mood = !change ? '' : isUp === isLessBetter ? 'worse' : 'better'
  return (
    <div class="tile">
      <dt>{label}</dt>
      <dd>
        <span class="tile-number">{children}</span>
        {change != null && Number.isFinite(change) && (
          <span class={`change ${mood}`} title="Compared with the previous period">
            {isUp ? '▲' : change < 0 ? '▼' : ''} {percent(Math.abs(change), 0)}
          </span>
        )}
      </dd>
    </div>
  )
}

/** A row of tiles. */
export function Tiles({ children }: { children: ComponentChildren }) {
  return <dl class="tiles">{children}</dl>
}

/** The properties of a block with a title. `aside` is shown beside the title, and `children` below it. */
interface TitledProps {
  readonly title: string
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
}

/** A box with a heading. */
export function Card({ title, aside, children }: TitledProps) {
  return (
    <section class="card" aria-label={title}>
      <header class="head">
        <h2>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  )
}

/** A page with its heading. */
export function Page({ title, aside, children }: TitledProps) {
  return (
    <>
      <header class="head">
        <h1>{title}</h1>
        <div class="row">{aside}</div>
      </header>
      {children}
    </>
  )
}

interface TabsProps {
  readonly label: string
  readonly tabs: Options
  /** The URL parameter that contains the chosen tab. If the URL does not contain it, the first tab is chosen. */
  readonly parameter: string
  /** The URL parameters that are removed when the reader chooses another tab. */
  readonly without?: readonly string[]
}

/** Tabs. Each is a link that changes a URL parameter. */
export function Tabs({ label, tabs, parameter, without = [] }: TabsProps) {
  const [first] = tabs[0] ?? ['']
  const chosen = tabOf(tabs, parameter)
  const others = Object.fromEntries(without.map((name) => [name, null]))
  const to = (value: string) => href(withQuery({ ...others, [parameter]: value === first ? null : value }))
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(([value, words]) => (
        <a key={value} href={to(value)} aria-current={value === chosen ? 'page' : undefined}>
          {words}
        </a>
      ))}
    </nav>
  )
}

/** Returns the tab named in the URL. If there is no such tab, returns the first one. */
export function tabOf<Value extends string>(tabs: Options<Value>, parameter: string): Value {
  const given = query.value.get(parameter)
  const [value] = tabs.find(([one]) => one === given) ?? tabs[0] ?? ['' as Value]
  return value
}

/** Facts with their names, as a list. */
export function Facts({ of }: { of: Readonly<Record<string, ComponentChildren>> }) {
  return (
    <dl class="facts">
      {Object.entries(of).map(([name, words]) => (
        <>
          <dt>{name}</dt>
          <dd>{words}</dd>
        </>
      ))}
    </dl>
  )
}
