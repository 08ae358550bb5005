package fsm

import (
	"cmp"
	"strings"

	"github.com/tidwall/btree"
)

// scopedName is a name in the world of its site (S33). The zero one is none.
type scopedName struct {
	site Site
	name string
}

func (n scopedName) isZero() bool { return n.name == "" }

// named is the id of what has a name.
type named[ID any] struct {
	scopedName
	id ID
}

func (n named[ID]) before(o named[ID]) bool {
	return cmp.Or(cmp.Compare(n.site, o.site), cmp.Compare(n.name, o.name)) < 0
}

// nameTable finds ids by names; a copy costs O(1).
type nameTable[ID any] struct{ tree *btree.BTreeG[named[ID]] }

func newNameTable[ID any]() nameTable[ID] { return nameTable[ID]{ordered(named[ID].before)} }

func (t nameTable[ID]) Get(n scopedName) (ID, bool) {
	e, ok := t.tree.Get(named[ID]{scopedName: n})
	return e.id, ok
}

func (t nameTable[ID]) Set(n scopedName, id ID) { t.tree.Set(named[ID]{n, id}) }

func (t nameTable[ID]) Delete(n scopedName) { t.tree.Delete(named[ID]{scopedName: n}) }

func (t nameTable[ID]) Items() []named[ID] { return t.tree.Items() }

func (t nameTable[ID]) Copy() nameTable[ID] { return nameTable[ID]{t.tree.Copy()} }

// namedAnywhere finds what has a name, for people: at one site only, or as SITE/NAME.
func namedAnywhere[T any](s *State, text string, at func(Site, string) (*T, bool)) *T {
	var found []*T
	for _, site := range s.Sites() {
		if x, ok := at(site, text); ok {
			found = append(found, x)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	site, name, _ := strings.Cut(text, "/")
	x, _ := at(SiteFrom(site), name)
	return x
}

// VolumeNamed finds a volume by its name, for people; nil when there is none, or when several sites have
// one of that name and it is not given as SITE/NAME.
func (s *State) VolumeNamed(text string) *Volume { return namedAnywhere(s, text, s.VolumeByName) }

// SnapshotNamed is VolumeNamed of a snapshot.
func (s *State) SnapshotNamed(text string) *Snapshot { return namedAnywhere(s, text, s.SnapshotByName) }

// GroupSnapshotNamed is VolumeNamed of a group snapshot.
func (s *State) GroupSnapshotNamed(text string) *GroupSnapshot {
	return namedAnywhere(s, text, s.GroupSnapshotByName)
}
