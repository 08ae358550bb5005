// Package page serves lists in pages: as many entries as fit an answer, and a token for those that follow.
package page

import (
	"iter"

	"google.golang.org/protobuf/proto"
)

// maxPageSize bounds a page in bytes, so that it fits gRPC's 4 MiB even when the caller
// sets no limit: the rest follows under next_token.
const maxPageSize = 3 << 20

// minEntrySize is less than any entry has, in bytes: more entries cannot fit a page.
const minEntrySize = 64

// Page is one response being built: what it lists is collected under the state's lock and
// described without it.
type Page[T any] struct {
	Items []T
	More  bool // others follow those collected
}

// Collect takes at most maxEntries, 0: as many as may fit a page.
func (p *Page[T]) Collect(all iter.Seq[T], maxEntries int32) {
	limit := maxPageSize / minEntrySize
	if maxEntries != 0 {
		limit = min(limit, int(maxEntries))
	}
	for item := range all {
		if len(p.Items) == limit {
			p.More = true
			break
		}
		p.Items = append(p.Items, item)
	}
}

// Describe describes as many as fit, at least one.
func Describe[T any, M proto.Message](p *Page[T], describe func(T) M) (entries []M) {
	bytesLeft := maxPageSize
	for _, item := range p.Items {
		entry := describe(item)
		const framing = 8 // at most, of one entry in the list
		bytesLeft -= proto.Size(entry) + framing
		if bytesLeft < 0 && len(entries) > 0 {
			p.More = true
			break
		}
		entries = append(entries, entry)
	}
	return entries
}
