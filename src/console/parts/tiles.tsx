/** Numbers that stand alone, with how they changed. */
import type { ComponentChildren } from 'preact'
import { percent } from '../base/format.ts'

/** A tile: a name, a number in words, and the change against the period before, as a share. */
export function Tile({
  label,
  children,
  change,
  isLessBetter = false,
}: {
  readonly label: string
  readonly children: ComponentChildren
  readonly change?: number | null
  readonly isLessBetter?: boolean
}) {
  const isUp = (change ?? 0) > 0
  const mood = change == null || change === 0 ? '' : isUp === isLessBetter ? 'worse' : 'better'
  return (
    <div class="tile">
      <dt>{label}</dt>
      <dd>
        <span class="tile-number">{children}</span>
        {change == null || !Number.isFinite(change) ? null : (
          <span class={`change ${mood}`} title="Against the period before">
            {isUp ? '▲' : change < 0 ? '▼' : ''} {percent(Math.abs(change), 0)}
          </span>
        )}
      </dd>
    </div>
  )
}

/** Tiles in a row. */
export function Tiles({ children }: { readonly children: ComponentChildren }) {
  return <dl class="tiles">{children}</dl>
}

/** A box with a head: the unit that pages are made of. `aside` stands at the right of the head. */
export function Card({
  title,
  aside,
  children,
}: {
  readonly title: string
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
}) {
  return (
    <section class="card" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  )
}

/** A page: its title, what stands beside it, and the rest. */
export function Page({
  title,
  aside,
  children,
}: {
  readonly title: string
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
}) {
  return (
    <>
      <header class="page-head">
        <h1>{title}</h1>
        <div class="page-aside">{aside}</div>
      </header>
      {children}
    </>
  )
}

/** Tabs: links that change one parameter of the address. */
export function Tabs({
  label,
  tabs,
  chosen,
  to,
}: {
  readonly label: string
  readonly tabs: readonly (readonly [value: string, words: string])[]
  readonly chosen: string
  readonly to: (value: string) => string
}) {
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
