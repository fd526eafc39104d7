"""Views of a cache, and its comparison with other mappings."""

from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView

from ._uzram import Cache

_GONE = object()


class Keys(KeysView):
    """The keys of a cache."""

    __slots__ = ()


class Values(ValuesView):
    """The values of a cache. Iteration does not mark the values as used."""

    __slots__ = ()

    def __contains__(self, value):
        return any(kept is value or kept == value for kept in self)

    def __iter__(self):
        for _, value in Items(self._mapping):
            yield value


class Items(ItemsView):
    """The keys of a cache with their values. Iteration does not mark the values as used."""

    __slots__ = ()

    def __contains__(self, item):
        key, value = item
        kept = self._mapping.peek(key, _GONE)
        return kept is not _GONE and (kept is value or kept == value)

    def __iter__(self):
        for key in self._mapping:
            value = self._mapping.peek(key, _GONE)
            if value is not _GONE:
                yield key, value


def is_equal(cache, other):
    """Returns the result of ``cache == other``."""
    if not isinstance(other, Mapping):
        return NotImplemented
    if len(cache) != len(other):
        return False
    look = other.peek if isinstance(other, Cache) else other.get
    return all(look(key, _GONE) == value for key, value in Items(cache))


def is_other(cache, other):
    """Returns the result of ``cache != other``."""
    answer = is_equal(cache, other)
    return answer if answer is NotImplemented else not answer


MutableMapping.register(Cache)
