/** Light, dark, or as the system is. */
import { signal } from '@preact/signals'

/** What the reader chose. */
export type Theme = 'auto' | 'light' | 'dark'

const KEY = 'tenrec-theme'

/** What is chosen; kept in this browser. */
export const theme = signal<Theme>(read())

function read(): Theme {
  const kept = localStorage.getItem(KEY)
  return kept === 'light' || kept === 'dark' ? kept : 'auto'
}

/** Chooses and keeps. */
export function chooseTheme(chosen: Theme): void {
  theme.value = chosen
  localStorage.setItem(KEY, chosen)
  applyTheme()
}

/** Marks the page; called before anything is shown. */
export function applyTheme(): void {
  document.documentElement.dataset['theme'] = theme.value
}

/** A colour of the tokens as it is now, for what is drawn on a canvas. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}
