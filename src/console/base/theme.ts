/** The colour theme: light, dark, or that of the system. */
import { signal } from '@preact/signals'

/** The themes that the reader can choose. */
export const THEMES = ['auto', 'light', 'dark'] as const

/** One of the themes. */
export type Theme = (typeof THEMES)[number]

const KEY = 'tenrec-theme'

/** Returns the stored name, or null. An embedded page may be forbidden to read the storage. */
function storedName(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}

/** The chosen theme, which is stored in this browser. */
export const theme = signal<Theme>(THEMES.find((one) => one === storedName()) ?? 'auto')

/** Sets and stores the theme. */
export function chooseTheme(chosen: Theme): void {
  theme.value = chosen
  localStorage.setItem(KEY, chosen)
  applyTheme()
}

/** Applies the theme to the page. Call it before anything is shown. */
export function applyTheme(): void {
  document.documentElement.dataset['theme'] = theme.value
}
