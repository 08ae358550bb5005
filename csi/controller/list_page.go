package controller

import (
	"iter"

	"google.golang.org/protobuf/proto"
)

// maxPageSize bounds a page in bytes, so that it fits gRPC's 4 MiB even when the caller
// sets no limit: the rest follows under next_token.
const maxPageSize = 3 << 20

// minEntrySize is less than any entry has, in bytes: more entries cannot fit a page.
const minEntrySize = 64

// page is one response being built: what it lists is collected under the state's lock and
// described without it.
type page[T any] struct {
	items []T
	more  bool // others follow those collected
}

// collect takes at most maxEntries, 0: as many as may fit a page.
func (p *page[T]) collect(all iter.Seq[T], maxEntries int32) {
	limit := maxPageSize / minEntrySize
	if maxEntries != 0 {
		limit = min(limit, int(maxEntries))
	}
	for item := range all {
		if len(p.items) == limit {
			p.more = true
			break
		}
		p.items = append(p.items, item)
	}
}

// describePage describes as many as fit, at least one.
func describePage[T any, M proto.Message](p *page[T], describe func(T) M) (entries []M) {
	bytesLeft := maxPageSize
	for _, item := range p.items {
		entry := describe(item)
		const framing = 8 // at most, of one entry in the list
		bytesLeft -= proto.Size(entry) + framing
		if bytesLeft < 0 && len(entries) > 0 {
			p.more = true
			break
		}
		entries = append(entries, entry)
	}
	return entries
}
