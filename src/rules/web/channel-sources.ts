/**
 * Lists of traffic sources: which kind of source a name, an app or a domain is, and which channels the words in
 * `utm_medium` mean. Brand names apply to `utm_source`; the other names also apply to referring domains. The same names
 * appear in PostHog's list, because they are facts. Source: docs/compatibility/enrichment.md, "Channel types".
 */

/** The kind of a source. The first four kinds have one channel for paid traffic and another for other traffic. */
export type SourceKind =
  | 'Search'
  | 'Social'
  | 'Video'
  | 'Shopping'
  | 'Email'
  | 'AI'
  | 'SMS'
  | 'Push'

/**
 * The channels of sessions whose `utm_medium` is a certain word: the channel for paid traffic, and the one for other
 * traffic. Null means that the word has no channel for paid traffic.
 */
export interface MediumChannels {
  readonly paid: string | null
  readonly organic: string
}

const EMAIL_WORDS = ['email', 'e-mail', 'e_mail', 'e mail']

const SEARCH = `
  google bing yahoo baidu duckduckgo yandex ecosia.org qwant.com qwant startpage.com
  search.brave.com kagi.com naver naver.com daum daum.net seznam seznam.cz sogou sogou.com so.com
  360.cn aol ask ask.com msn msn.com lycos lycos.com mojeek.com swisscows.com phind.com bing.com
  yahoo.com yahoo.co.jp baidu.com duckduckgo.com yandex.com yandex.ru yandex.com.tr yandex.kz
  yandex.by search.aol.com onet onet.pl rambler rambler.ru lens.google.com news.google.com
  play.google.com google-play com.google.android.googlequicksearchbox com.microsoft.bing
  coccoc.com rakuten rakuten.co.jp`
const SOCIAL = `
  facebook facebook.com fb fb.me instagram instagram.com ig threads.net messenger messenger.com
  whatsapp whatsapp.com twitter twitter.com x.com t.co linkedin linkedin.com lnkd.in reddit
  reddit.com pinterest pinterest.com tiktok tiktok.com snapchat snapchat.com bsky.app
  mastodon.social mastodon.online fosstodon.org hachyderm.io t.me web.telegram.org discord.com
  vk.com weibo weibo.com wechat wechat.com line line.me kakao kakao.com tumblr tumblr.com
  medium.com quora quora.com stackoverflow stackoverflow.com stackexchange stackexchange.com
  news.ycombinator.com slashdot.org meetup meetup.com xing xing.com flickr flickr.com flipboard
  flipboard.com getpocket.com goodreads goodreads.com tripadvisor tripadvisor.com yelp yelp.com
  wordpress wordpress.com blogger blogger.com blogspot blogspot.com groups.google.com
  sites.google.com plus.google.com answers.yahoo.com blog.naver.com cafe.naver.com bit.ly tinyurl
  tinyurl.com goo.gl social com.facebook.katana com.instagram.android com.linkedin.android
  com.reddit.frontpage com.twitter.android com.zhiliaoapp.musically`
const VIDEO = `
  youtube youtube.com m.youtube.com music.youtube.com vimeo vimeo.com twitch twitch.tv
  dailymotion dailymotion.com netflix netflix.com hulu hulu.com disneyplus disneyplus.com wistia
  wistia.com youku youku.com iqiyi iqiyi.com ted ted.com com.google.android.youtube
  tv.twitch.android.app`
const SHOPPING = `
  amazon amazon.com amazon.co.uk ebay ebay.com ebay.co.uk ebay.de ebay.com.au etsy etsy.com
  alibaba alibaba.com walmart walmart.com shopify shopify.com shop.app mercadolibre
  mercadolibre.com mercadolibre.com.ar mercadolibre.com.mx stripe stripe.com checkout.stripe.com
  shopping shopping.yahoo.com shopping.yahoo.co.jp shopping.naver.com igshopping`
const EMAIL = `
  mail.google.com outlook.live.com mail.yahoo.com mail.aol.com mail.proton.me
  com.google.android.gm com.google.gmail com.microsoft.office.outlook com.apple.mobilemail
  ru.mail.mail ru.yandex.mail`
const AI = `
  chatgpt.com claude.ai perplexity.ai copilot.microsoft.com gemini.google.com meta.ai pi.ai
  poe.com you.com ai.perplexity.app`

const LISTS: readonly (readonly [SourceKind, readonly string[]])[] = [
  ['Search', namesIn(SEARCH)],
  ['Social', namesIn(SOCIAL)],
  ['Video', namesIn(VIDEO)],
  ['Shopping', namesIn(SHOPPING)],
  ['Email', [...namesIn(EMAIL), ...EMAIL_WORDS]],
  ['AI', namesIn(AI)],
  ['SMS', ['sms']],
  ['Push', ['firebase']],
]

/** The kind of each source. The key is a name, an app or a domain from the lists above, exactly as written there. */
export const SOURCE_KINDS: ReadonlyMap<string, SourceKind> = new Map(
  LISTS.flatMap(([kind, names]) => names.map((name): [string, SourceKind] => [name, kind])),
)

const MEDIUM_LISTS: readonly (readonly [readonly string[], MediumChannels])[] = [
  [['affiliate', 'partnership', 'partnerships'], { paid: null, organic: 'Affiliate' }],
  [['app', 'link', 'referral'], { paid: null, organic: 'Referral' }],
  [['audio'], { paid: null, organic: 'Audio' }],
  [
    ['banner', 'cpm', 'display', 'expandable', 'interstitial'],
    { paid: 'Display', organic: 'Display' },
  ],
  [EMAIL_WORDS, { paid: null, organic: 'Email' }],
  [['mobile', 'notification', 'push'], { paid: null, organic: 'Push' }],
  [
    [
      'sm',
      'social',
      ...['-', ' '].flatMap((dash) => [`social${dash}media`, `social${dash}network`]),
    ],
    { paid: 'Paid Social', organic: 'Organic Social' },
  ],
  [['video'], { paid: 'Paid Video', organic: 'Organic Video' }],
]

/** The channels of each value of `utm_medium`. */
export const MEDIUM_CHANNELS: ReadonlyMap<string, MediumChannels> = new Map(
  MEDIUM_LISTS.flatMap(([words, channels]) =>
    words.map((word): [string, MediumChannels] => [word, channels]),
  ),
)

function namesIn(list: string): readonly string[] {
  return list.trim().split(/\s+/)
}
