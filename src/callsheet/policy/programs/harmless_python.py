"""What a Python program may use without opening a file: functions, modules, and names of attributes.

The names of attributes are harmless on every object that a program can have, given that it can use nothing
else: no classes of its own, no types, no internals of the interpreter. A module is used only by what is
listed for it, since it also leads to the modules that it has imported.
"""

from __future__ import annotations

from collections.abc import Mapping


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _names(
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate exit filter float"
    " format frozenset hash hex id input int isinstance issubclass iter len list map max min next oct ord"
    " pow print quit range repr reversed round set slice sorted str sum tuple zip"
)
"""Built-in functions and types; not `type`, `object` and what reads attributes by name."""

ATTRIBUTES = _names(
    # texts and bytes; `format` only of a literal
    "capitalize casefold center count decode encode endswith expandtabs find fromhex hex index isalnum"
    " isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper"
    " join ljust lower lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust"
    " rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill"
    # containers
    " add append appendleft clear copy difference difference_update discard elements extend extendleft"
    " fromkeys get insert intersection intersection_update isdisjoint issubset issuperset items keys maxlen"
    " most_common move_to_end pop popitem popleft remove reverse rotate setdefault sort subtract"
    " symmetric_difference symmetric_difference_update total union update values"
    # numbers
    " as_integer_ratio as_tuple bit_count bit_length compare conjugate denominator digits exponent"
    " from_bytes from_float imag is_finite is_infinite is_integer is_nan is_signed limit_denominator ln"
    " log10 normalize numerator quantize real scaleb sign sqrt to_bytes to_integral_value"
    # times
    " astimezone combine ctime date day days dst fold fromisocalendar fromisoformat fromordinal"
    " fromtimestamp hour isocalendar isoformat isoweekday key microsecond microseconds minute month now"
    " second seconds strftime strptime time timestamp timetuple timetz today tm_hour tm_mday tm_min tm_mon"
    " tm_sec tm_wday tm_yday tm_year toordinal total_seconds tzinfo tzname utc utcfromtimestamp utcnow"
    " utcoffset week weekday year"
    # matches, differences, texts with places for values
    " a b end endpos expand fullmatch findall finditer flags get_matching_blocks get_opcodes group"
    " groupdict groupindex groups lastgroup lastindex match pattern pos quick_ratio ratio safe_substitute"
    " search size span start string sub subn substitute"
    # standard input and output, tables
    " buffer closed fieldnames flush getvalue isatty line_num read readable readline readlines seek tell"
    " writable write writeheader writelines writerow writerows"
    # addresses
    " broadcast_address compressed exploded fragment geturl hostmask hostname hosts is_global is_link_local"
    " is_loopback is_multicast is_private is_reserved is_unspecified max_prefixlen netloc netmask"
    " network_address num_addresses overlaps packed params password path port prefixlen query scheme"
    " subnet_of subnets supernet supernet_of username version with_prefixlen"
    # digests, identifiers, graphs, measures, errors
    " args block_size bytes code colno digest digest_size doc fields hexdigest int intercept lineno msg"
    " slope static_order urn variant with_traceback"
    # limits of numbers and of the interpreter
    " dig epsilon major mant_dig max max_exp micro min min_exp minor releaselevel serial"
)

MODULES: Mapping[str, frozenset[str]] = {
    module: _names(names)
    for module, names in {
        "__future__": "annotations",
        "base64": "b16decode b16encode b32decode b32encode b64decode b64encode b85decode b85encode"
        " standard_b64decode standard_b64encode urlsafe_b64decode urlsafe_b64encode",
        "binascii": "a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 hexlify unhexlify",
        "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
        "calendar": "calendar day_abbr day_name isleap leapdays month month_abbr month_name monthcalendar"
        " monthrange timegm weekday",
        "cmath": "acos asin atan cos cosh e exp inf isclose isfinite isinf isnan log log10 nan phase pi polar"
        " rect sin sinh sqrt tan tanh tau",
        "collections": "Counter OrderedDict defaultdict deque",
        "collections.abc": "Callable Collection Hashable Iterable Iterator Mapping MutableMapping"
        " MutableSequence MutableSet Sequence Set",
        "csv": "DictReader DictWriter Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC reader"
        " writer",
        "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone",
        "decimal": "Decimal DivisionByZero InvalidOperation ROUND_CEILING ROUND_DOWN ROUND_FLOOR"
        " ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP",
        "difflib": "SequenceMatcher context_diff get_close_matches ndiff unified_diff",
        "fractions": "Fraction",
        "functools": "cache cmp_to_key lru_cache reduce",
        "graphlib": "CycleError TopologicalSorter",
        "hashlib": "algorithms_available algorithms_guaranteed blake2b blake2s md5 new pbkdf2_hmac scrypt"
        " sha1 sha224 sha256 sha384 sha3_224 sha3_256 sha3_384 sha3_512 sha512",
        "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
        "hmac": "compare_digest digest new",
        "html": "escape unescape",
        "io": "BytesIO StringIO",
        "ipaddress": "AddressValueError IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface"
        " IPv6Network NetmaskValueError collapse_addresses ip_address ip_interface ip_network"
        " summarize_address_range",
        "itertools": "accumulate batched chain combinations combinations_with_replacement compress count"
        " cycle dropwhile filterfalse groupby islice pairwise permutations product repeat starmap takewhile"
        " tee zip_longest",
        "json": "JSONDecodeError dump dumps load loads",
        "math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf"
        " erfc exp exp2 expm1 fabs factorial floor fmod frexp fsum gamma gcd hypot inf isclose isfinite"
        " isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod"
        " radians remainder sin sinh sqrt sumprod tan tanh tau trunc ulp",
        "numbers": "Complex Integral Number Rational Real",
        "operator": "add and_ concat contains countOf eq floordiv ge getitem gt indexOf inv itemgetter le lt"
        " mod mul ne neg not_ or_ pos pow sub truediv truth xor",
        "pprint": "pformat pp pprint",
        "random": "betavariate choice choices expovariate gauss getrandbits lognormvariate normalvariate"
        " randbytes randint random randrange sample seed shuffle triangular uniform",
        "re": "A ASCII DOTALL I IGNORECASE M MULTILINE S U UNICODE VERBOSE X compile error escape findall"
        " finditer fullmatch match search split sub subn",
        "secrets": "choice compare_digest randbelow randbits token_bytes token_hex token_urlsafe",
        "statistics": "StatisticsError correlation covariance fmean geometric_mean harmonic_mean"
        " linear_regression mean median median_grouped median_high median_low mode multimode pstdev"
        " pvariance quantiles stdev variance",
        "string": "Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits"
        " octdigits printable punctuation whitespace",
        "struct": "calcsize error iter_unpack pack unpack unpack_from",
        "sys": "argv byteorder exit float_info getsizeof maxsize platform setrecursionlimit stderr stdin"
        " stdout version version_info",
        "textwrap": "dedent fill indent shorten wrap",
        "time": "asctime ctime gmtime localtime mktime monotonic monotonic_ns perf_counter perf_counter_ns"
        " process_time sleep strftime strptime time time_ns timezone tzname",
        "typing": "Any Callable Dict FrozenSet Generator Hashable Iterable Iterator List Literal Mapping"
        " MutableMapping NoReturn Optional Sequence Set Tuple Union cast",
        "unicodedata": "bidirectional category combining decimal digit east_asian_width is_normalized lookup"
        " mirrored name normalize numeric unidata_version",
        "urllib.parse": "parse_qs parse_qsl quote quote_from_bytes quote_plus unquote unquote_plus"
        " unquote_to_bytes urldefrag urlencode urljoin urlparse urlsplit urlunparse urlunsplit",
        "uuid": "NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 UUID uuid3 uuid4 uuid5",
        "zlib": "adler32 compress crc32 decompress error",
        "zoneinfo": "ZoneInfo ZoneInfoNotFoundError",
    }.items()
}
