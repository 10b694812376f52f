/** The limits of store/identity, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of persons whose JSON texts are cached for the results of queries. The texts take some megabytes.
 */
export const ACTOR_TEXTS_MAX = 4096
/**
 * The largest number of UTF-16 units in the JSON text of a person that is cached. A longer text is created again for
 * each result.
 */
export const ACTOR_TEXT_UNITS_MAX = 4096
/**
 * The time for which decisions read from the same snapshot of the store. Later decisions read from a newer snapshot.
 */
export const DECISION_SNAPSHOT_MS_MAX = 2
/**
 * The approximate number of bytes of the decoded persons that are cached for decisions. Beyond it, the persons that
 * were not used for the longest time are evicted.
 */
export const DECISION_PERSON_BYTES_MAX = 16 * 1024 * 1024
/**
 * The approximate number of bytes of the groups that are cached for decisions until the next commit. Beyond it, the
 * groups that were not used for the longest time are evicted.
 */
export const DECISION_GROUP_BYTES_MAX = 4 * 1024 * 1024
/**
 * The largest number of UTF-16 units in the property values of a large person or group that stay in memory for the next
 * decision. If there are more, all values are evicted and read again.
 */
export const DECISION_VALUES_UNITS_MAX = 8192
/**
 * The largest number of bytes in a list or object that flags can compare. The limit applies only if the properties of
 * the person or group are stored in pages. A flag that compares a larger value fails with `pattern_limit`.
 */
export const COMPARED_BYTES_MAX = 16 * 1024
/**
 * If the properties of a person or group have at most this many bytes of JSON, they are stored in one record. Larger
 * properties are stored in pages, so that one property can be read without the others.
 */
export const PAGED_BYTES_MIN = 4096
/**
 * A page of properties with at least this number of bytes is compressed on the disk, if that saves enough space. A
 * smaller page is stored uncompressed.
 */
export const DEFLATED_PAGE_BYTES_MIN = 16 * 1024
/** The approximate number of bytes in a page of properties. A longer property gets a page of its own. */
export const PROPERTY_PAGE_BYTES = 1024
/**
 * The largest number of UTF-16 units in a page of properties that has grown by changes. Beyond it, the page is divided
 * into pages of the usual size.
 */
export const CHANGED_PAGE_UNITS_MAX = 4096
/**
 * The largest number of bytes in the stored properties of a person that processing reads completely. If a person has
 * more, processing reads and writes only the pages of the properties that an event needs.
 */
export const WHOLE_PERSON_BYTES_MAX = 48 * 1024
/** The largest number of UTF-16 units of the properties of a large person or group that processing caches. */
export const UNREAD_CACHE_UNITS_MAX = 4096
/**
 * The largest number of ranges of 256 distinct IDs or persons, one kilobyte each, that are cached until the next
 * commit. Beyond it, the cache is cleared.
 */
export const RANGES_CACHED_MAX = 4096
/**
 * The approximate number of bytes of the distinct IDs that the processing thread caches, about 60 bytes each. Beyond
 * it, the distinct IDs that were not used recently are evicted.
 */
export const CACHED_ID_BYTES_MAX = 32 * 1024 * 1024
/**
 * The largest number of bytes of a group key in the store. For a longer key, the store uses the beginning of the key
 * and a hash of the whole key.
 */
export const GROUP_KEY_BYTES_MAX = 400
/** The largest number of persons in one block of changes. Further ones go into another block. */
export const PERSON_CHANGES_MAX = 64
/**
 * The largest number of events that can be appended to a stored person without reading it. For a further event, the
 * person is read, and all these events are applied to it.
 */
export const PERSON_DELTAS_MAX = 8
/**
 * The largest number of characters in the changes of a person that are stored separately from the person. If there are
 * more, the person is stored completely.
 */
export const CHANGES_UNITS_MAX = 4096
/**
 * While the processing thread is idle, it applies appended events to stored persons, step by step. This is the largest
 * number of persons in one step. Further persons follow in the next step.
 */
export const FOLDED_PERSONS_MAX = 512
/**
 * The estimated number of bytes of memory of the persons to which one step applies appended events. Further persons
 * follow in the next step.
 */
export const FOLD_BYTES_MAX = 16 * 1024 * 1024
/** The time for which one step applies appended events to persons. The rest follows in the next step. */
export const FOLD_MS_MAX = 50
/**
 * The largest number of bytes in an event that can be appended to a stored person without reading it. For a larger
 * event, the person is read.
 */
export const DELTA_EVENT_BYTES_MAX = 4096
/**
 * The largest number of UTF-16 units in the changes that are appended for one event. If there are more, the person is
 * read.
 */
export const DELTA_UNITS_MAX = 2048
/**
 * The largest number of bytes in the stored properties of a person to which events can be appended without reading it.
 * A larger person is read for each event.
 */
export const DELTA_PERSON_BYTES_MAX = 48 * 1024
/** A search for persons reads at most this number of bytes of an email address. The rest is ignored. */
export const EMAIL_TEXT_BYTES_MAX = 256
/**
 * The largest number of persons, newest first, in which the values of a property are counted for suggestions. Older
 * persons are left out.
 */
export const VALUE_PERSONS_MAX = 100_000
/** The largest number of values of a person property that are suggested. Less frequent values are left out. */
export const SHOWN_VALUES_MAX = 20
/** The largest number of UTF-16 units in a value that is counted for suggestions. Longer values are left out. */
export const SHOWN_VALUE_UNITS_MAX = 500
/**
 * The estimated number of bytes of the persons that are cached while one page of events is read. Beyond it, the persons
 * that were not used recently are evicted.
 */
export const PERSON_SUMMARY_BYTES_MAX = 16 * 1024 * 1024
/** The largest number of bytes of an email address in the index of email addresses. The rest is cut off. */
export const PERSON_EMAIL_BYTES_MAX = 256
/**
 * The estimated number of bytes of the persons and groups that the processing thread caches for all projects. Beyond
 * it, the persons and groups that were not used recently are evicted and read again when they are needed.
 */
export const WRITER_CACHE_BYTES_MAX = 64 * 1024 * 1024
/**
 * A list of property names reads at most this number of persons, newest first, or of groups of one type. A name that
 * only further persons or groups have is not listed.
 */
export const NAMED_ACTORS_MAX = 100_000
/**
 * The largest number of persons of a project that a request for property names reads. For a larger project, it uses the
 * names that were counted in advance.
 */
export const ACTORS_READ_MAX = 2000
/**
 * The largest number of bytes of JSON of persons or groups that a request for property names reads. If persons have
 * more, it uses the names that were counted in advance. Groups beyond the limit are left out.
 */
export const ACTORS_READ_BYTES_MAX = 8 * 1024 * 1024
/**
 * The largest number of persons, newest first, whose names a search for persons reads. Older ones are found by their
 * e-mail address, a distinct_id or their UUID.
 * @user Persons and groups
 */
export const NAME_SEARCH_PERSONS_MAX = 20_000
/**
 * A request for property names also reads some persons that were added or changed after the last count of properties.
 * This is their largest number. Further persons are included in the next count.
 */
export const RECENT_PERSONS_MAX = 256
/**
 * The largest number of values of a person property that are counted in advance. If a property has more, a request for
 * its values reads the persons.
 */
export const COUNTED_VALUES_MAX = 200
/**
 * The largest number of UTF-16 units in all property names and values that are counted in advance. Beyond it, the names
 * that belong to the fewest persons are left out.
 */
export const COUNTED_UNITS_MAX = 1024 * 1024
/**
 * The largest number of UTF-16 units in all property names of persons or groups. Beyond it, the names that belong to
 * the fewest persons or groups are not listed.
 */
export const PROPERTY_NAMES_UNITS_MAX = 1024 * 1024
/**
 * The largest number of UTF-16 units in the name of a property of persons or groups that lists show. A property with a
 * longer name is stored but not listed.
 */
export const ACTOR_PROPERTY_NAME_UNITS_MAX = 400
/**
 * The largest number of ranges of 256 distinct IDs for which a project records that their owners changed recently. If
 * there are more, a reader of owners reads all owners again.
 */
export const OWNER_CHUNKS_NOTED_MAX = 64
