/** The limits of store/identity, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of persons whose texts are cached, some megabytes. */
export const ACTOR_TEXTS_MAX = 4096
/** The largest number of UTF-16 units in a cached text. A longer text is not cached. */
export const ACTOR_TEXT_UNITS_MAX = 4096
/** The time for which decisions read from one snapshot. Then they see newer commits. */
export const DECISION_SNAPSHOT_MS_MAX = 2
/**
 * The approximate number of bytes of the decoded persons that are cached for decisions. Beyond it, those that were not
 * used for the longest time are evicted.
 */
export const DECISION_PERSON_BYTES_MAX = 16 * 1024 * 1024
/**
 * The approximate number of bytes of the groups that are cached for decisions until the next commit. Beyond it, those
 * that were not used for the longest time are evicted.
 */
export const DECISION_GROUP_BYTES_MAX = 4 * 1024 * 1024
/**
 * The largest number of UTF-16 units of the values of a large person or group that stay in memory for the next
 * decision. Further values are read again.
 */
export const DECISION_VALUES_UNITS_MAX = 8192
/**
 * The largest number of bytes in a list or object among the paged properties of a person or group that flags can
 * compare. A flag that compares a larger one fails with `pattern_limit`.
 */
export const COMPARED_BYTES_MAX = 16 * 1024
/**
 * The smallest number of bytes of JSON in the properties of a person or group up to which they are stored in one
 * record. Larger properties are stored in pages, so that one property can be read without the others.
 */
export const PAGED_BYTES_MIN = 4096
/**
 * The smallest number of bytes from which on a page is compressed on the disk, if that saves enough. A smaller page is
 * stored uncompressed.
 */
export const DEFLATED_PAGE_BYTES_MIN = 16 * 1024
/** The approximate number of bytes in such a page. A longer property gets a page of its own. */
export const PROPERTY_PAGE_BYTES = 1024
/**
 * The largest number of ranges of 256 distinct IDs or persons, one kilobyte each, that are cached until the next
 * commit. Beyond it, the cache is cleared.
 */
export const RANGES_CACHED_MAX = 4096
/**
 * The approximate number of bytes of the distinct IDs that the processing thread caches, about 60 bytes each. Beyond
 * it, those that were not used recently are evicted.
 */
export const CACHED_ID_BYTES_MAX = 32 * 1024 * 1024
/**
 * The largest number of bytes of a group key in the store. A longer key is stored as its beginning and a hash of the
 * whole key.
 */
export const GROUP_KEY_BYTES_MAX = 400
/** The largest number of persons in one block of changes. Further ones go into another block. */
export const PERSON_CHANGES_MAX = 64
/**
 * The largest number of events of a person that are kept unapplied until the person is read. For a further event, the
 * person is read and all of them are applied.
 */
export const PERSON_DELTAS_MAX = 8
/**
 * The largest number of characters of the changes of a person that are stored separately from the person. With more,
 * the person is stored as a whole.
 */
export const CHANGES_UNITS_MAX = 4096
/**
 * The largest number of persons whose unapplied events are applied in one run while the processing thread is idle.
 * Further persons follow in the next run.
 */
export const FOLDED_PERSONS_MAX = 512
/** The estimated number of bytes of memory of the persons in such a run. Further persons follow in the next run. */
export const FOLD_BYTES_MAX = 16 * 1024 * 1024
/** The time for which such a run reads persons. The rest follows in the next run. */
export const FOLD_MS_MAX = 50
/**
 * The largest number of bytes of an event that is stored without being applied to the properties of its person at once.
 * For a larger event, the person is read and changed immediately.
 */
export const DELTA_EVENT_BYTES_MAX = 4096
/** The largest number of UTF-16 units of the stored data of such an event. With more, its person is read. */
export const DELTA_UNITS_MAX = 2048
/**
 * The largest number of bytes of the stored properties of a person whose events may be applied to it later. A larger
 * person is read and changed for each event.
 */
export const DELTA_PERSON_BYTES_MAX = 48 * 1024
/** The largest number of bytes of an email address in which a search for persons looks. The rest is ignored. */
export const EMAIL_TEXT_BYTES_MAX = 256
/** The largest number of persons, newest first, in which the values of a property are counted. */
export const VALUE_PERSONS_MAX = 100_000
/** The largest number of values of a person property that are suggested. Less frequent values are left out. */
export const SHOWN_VALUES_MAX = 20
/** The largest number of UTF-16 units in a value that is counted for suggestions. Longer values are left out. */
export const SHOWN_VALUE_UNITS_MAX = 500
/**
 * The estimated number of bytes of the persons that are cached during one page of events. Beyond it, those that were
 * not used recently are evicted.
 */
export const PERSON_SUMMARY_BYTES_MAX = 16 * 1024 * 1024
/** The largest number of bytes of an email address in its index. The rest is cut off. */
export const PERSON_EMAIL_BYTES_MAX = 256
/**
 * The estimated number of bytes of the persons and groups that the processing thread caches for all projects. Beyond
 * it, those that were not used recently are evicted and read again when they are needed.
 */
export const WRITER_CACHE_BYTES_MAX = 64 * 1024 * 1024
/** The largest number of persons, newest first, or groups of a type in which property names are searched. */
export const NAMED_ACTORS_MAX = 100_000
/**
 * The largest number of persons of a project that are read for each request for property names. In larger projects, the
 * names that were counted before are used.
 */
export const ACTORS_READ_MAX = 2000
/**
 * The largest number of bytes of JSON of persons or groups that are read for each request for property names. With more
 * persons, the names that were counted before are used. Further groups are left out.
 */
export const ACTORS_READ_BYTES_MAX = 8 * 1024 * 1024
/**
 * The largest number of persons, newest first, in whose names a search for persons looks. Older ones are found by their
 * e-mail address, a distinct_id or their UUID.
 * @user Persons and groups
 */
export const NAME_SEARCH_PERSONS_MAX = 20_000
/**
 * The largest number of persons, new or changed since the last count, in which a request for property names searches.
 * Further ones follow with the next count.
 */
export const RECENT_PERSONS_MAX = 256
/**
 * The largest number of values of a person property that are counted in advance. With more, a request for values reads
 * the persons.
 */
export const COUNTED_VALUES_MAX = 200
/**
 * The largest number of UTF-16 units of all names and values that are counted in advance. Beyond it, the names with the
 * fewest persons are left out.
 */
export const COUNTED_UNITS_MAX = 1024 * 1024
/**
 * The largest number of UTF-16 units of all property names of persons or groups. Beyond it, the names with the fewest
 * persons or groups are not listed.
 */
export const PROPERTY_NAMES_UNITS_MAX = 1024 * 1024
/**
 * The largest number of UTF-16 units in the name of a property of persons or groups that lists show. A property with a
 * longer name is stored but not listed.
 */
export const ACTOR_PROPERTY_NAME_UNITS_MAX = 400
/**
 * The largest number of ranges of 256 distinct IDs with recently changed owners that a project remembers. With more, a
 * reader of owners reads all of them again.
 */
export const OWNER_CHUNKS_NOTED_MAX = 64
