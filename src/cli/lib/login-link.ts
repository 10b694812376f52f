/** Login links, which log a user into the console once, without a key. */
import type { Settings } from '../../config/settings.ts'

/**
 * Returns the login link for a code. The code follows `#`, so that it reaches neither proxies nor logs. `baseUrl` is
 * the URL of the daemon, without a slash at its end.
 */
export function loginLink(
  code: string,
  baseUrl: string,
  { consolePath }: Pick<Settings, 'consolePath'>,
): string {
  return `${baseUrl}${consolePath}#login=${code}`
}
