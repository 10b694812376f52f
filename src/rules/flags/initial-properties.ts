/**
 * Person properties that keep the first value of another one: while a person lacks them, filters see the
 * current value instead. Source: docs/COMPATIBILITY.md, "Flag decisions".
 */

const CURRENT_PROPERTIES = [
  '$app_build $app_name $app_namespace $app_version $browser $browser_version $device_type',
  '$current_url $pathname $os $os_version $referring_domain $referrer $screen_height $screen_width',
  '$viewport_height $viewport_width $raw_user_agent utm_source utm_medium utm_campaign utm_content',
  'utm_term gclid gad_source gclsrc dclid gbraid wbraid fbclid msclkid twclid li_fat_id mc_cid igshid',
  'ttclid rdt_cid epik qclid sccid irclid _kx',
].flatMap((line) => line.split(' '))

const CURRENT_OF_INITIAL = new Map(
  CURRENT_PROPERTIES.map((key) => [`$initial_${key.replace('$', '')}`, key]),
)

/** The property whose value stands in for a missing one, or null. */
export function standInFor(key: string): string | null {
  return CURRENT_OF_INITIAL.get(key) ?? null
}
