/** A button that opens a menu of further actions. Escape, or a click elsewhere, closes the menu. */
import type { ComponentChildren } from 'preact'
import { useId, useRef } from 'preact/hooks'

const DISTANCE_PX = 4
const EDGE_PX = 8

/** A button with three dots that opens a menu. `label` is its name for screen readers. */
export function Menu({ label, children }: { label: string; children: ComponentChildren }) {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const panel = useRef<HTMLDivElement>(null)
  // The browser draws a popover above everything else, so it must be positioned relative to the window and not to the
  // button.
  function place() {
    const at = button.current?.getBoundingClientRect()
    if (panel.current === null || at === undefined) return
    const { offsetWidth, offsetHeight, style } = panel.current
    const isBelow = at.bottom + DISTANCE_PX + offsetHeight <= innerHeight
    const top = isBelow ? at.bottom + DISTANCE_PX : Math.max(EDGE_PX, at.top - DISTANCE_PX - offsetHeight)
    style.top = `${top + scrollY}px`
    style.left = `${Math.max(EDGE_PX, Math.min(at.left, innerWidth - offsetWidth - EDGE_PX))}px`
  }
  return (
    <>
      <button ref={button} type="button" class="small" aria-label={label} title={label} popovertarget={id}>
        ⋯
      </button>
      <div ref={panel} id={id} popover="auto" class="menu" onToggle={place}>
        {children}
      </div>
    </>
  )
}
