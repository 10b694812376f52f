/** What pages are built of: cards, tabs, and numbers that stand alone. */
import type { ComponentChildren } from 'preact'
import { href, query, withQuery } from '../base/address.ts'
import { percent } from '../base/format.ts'
import type { Options } from './fields.tsx'

interface TileProps {
  readonly label: string
  /** Against the period before, as a share. */
  readonly change?: number | null
  readonly isLessBetter?: boolean
  readonly children: ComponentChildren
}

/** A tile: a name, a number in words, and how it changed. */
export function Tile({ label, children, change, isLessBetter = false }: TileProps) {
  const isUp = (change ?? 0) > 0
  const mood = !change ? '' : isUp === isLessBetter ? 'worse' : 'better'
  return (
    <div class="tile">
      <dt>{label}</dt>
      <dd>
        <span class="tile-number">{children}</span>
        {change != null && Number.isFinite(change) && (
          <span class={`change ${mood}`} title="Against the period before">
            {isUp ? '▲' : change < 0 ? '▼' : ''} {percent(Math.abs(change), 0)}
          </span>
        )}
      </dd>
    </div>
  )
}

/** Tiles in a row. */
export function Tiles({ children }: { children: ComponentChildren }) {
  return <dl class="tiles">{children}</dl>
}

/** What stands below a title; `aside` stands beside it. */
interface TitledProps {
  readonly title: string
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
}

/** A box with a head: the unit that pages are made of. */
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

/** A page. */
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
  /** Of the address; what stands in it is the chosen one, or the first. */
  readonly parameter: string
  /** Parameters that another tab does not have. */
  readonly without?: readonly string[]
}

/** Tabs: links that change a parameter of the address. */
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

/** The tab of the address, of those that there are. */
export function tabOf<Value extends string>(tabs: Options<Value>, parameter: string): Value {
  const given = query.value.get(parameter)
  const [value] = tabs.find(([one]) => one === given) ?? tabs[0] ?? ['' as Value]
  return value
}

/** What is known of something, by name. */
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
