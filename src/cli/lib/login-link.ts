/** Login links: addresses with which somebody logs into the console, once and without a key. */
import type { Settings } from '../../config/settings.ts'

/**
 * The link with a code. That stands behind `#`, so that neither proxies nor logs see it. `baseUrl`: of the
 * daemon, without a slash at its end.
 */
export function loginLink(
  code: string,
  baseUrl: string,
  { consolePath }: Pick<Settings, 'consolePath'>,
): string {
  return `${baseUrl}${consolePath}#login=${code}`
}
