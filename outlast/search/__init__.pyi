from outlast.search.excerpts import Excerpt as Excerpt
from outlast.search.excerpts import Piece as Piece
from outlast.search.index import Hit as Hit
from outlast.search.index import IndexStatus as IndexStatus
from outlast.search.index import SearchIndex as SearchIndex
from outlast.search.index import SearchIndexDamaged as SearchIndexDamaged
from outlast.search.index import SearchUnavailable as SearchUnavailable
from outlast.search.locations import open_index as open_index
