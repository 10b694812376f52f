/** The color theme of the console: light, dark, or like the system. */
import { signal } from '@preact/signals'

/** The themes that the reader can choose. */
export const THEMES = ['auto', 'light', 'dark'] as const

/** One of the themes. */
export type Theme = (typeof THEMES)[number]

const KEY = 'tenrec-theme'

/**
 * Returns the name of the theme in the browser's local storage, or null. An embedded page may not be allowed to read
 * the storage.
 */
function storedName(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}

/** The chosen theme, which is stored in this browser. */
export const theme = signal<Theme>(THEMES.find((one) => one === storedName()) ?? 'auto')

/** Sets the theme and stores it in this browser. */
export function chooseTheme(chosen: Theme): void {
  theme.value = chosen
  localStorage.setItem(KEY, chosen)
  applyTheme()
}

/**
 * Applies the theme to the page. Must be called before anything is shown, so that the colors do not change visibly.
 */
export function applyTheme(): void {
  document.documentElement.dataset['theme'] = theme.value
}
