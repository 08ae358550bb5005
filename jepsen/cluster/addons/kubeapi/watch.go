package kubeapi

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
)

// selection is what a list or a watch is about.
type selection struct {
	resource        resource
	namespace, name string // all when empty
}

func (s selection) has(ref Ref) bool {
	return ref.Resource == s.resource.name && (s.namespace == "" || s.namespace == ref.Namespace) && (s.name == "" || s.name == ref.Name)
}

// list are the objects of a selection by their names, and the version at which they are so.
func (s *store) list(sel selection) (objects []Object, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refs := slices.SortedFunc(maps.Keys(s.objects), func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	objects = []Object{}
	for _, ref := range refs {
		if sel.has(ref) {
			objects = append(objects, s.objects[ref])
		}
	}
	return objects, len(s.changes)
}

// since are the changes after a version, and what the next one closes.
func (s *store) since(version int) ([]change, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes[min(version, len(s.changes)):], s.changed
}

// watch sends the changes of a selection after a version until ctx ends or send fails. Without a version it sends what
// there is first, and where marked, a mark behind that.
func (s *store) watch(ctx context.Context, sel selection, after string, marked bool, send func(kind string, o Object) error) error {
	version, err := strconv.Atoi(after)
	if err != nil || version == 0 || marked {
		var have []Object
		have, version = s.list(sel)
		for _, o := range have {
			if err := send("ADDED", o); err != nil {
				return err
			}
		}
	}
	if marked {
		if err := send("BOOKMARK", mark(sel.resource, version)); err != nil {
			return err
		}
	}
	return s.follow(ctx, sel, version, send)
}

func (s *store) follow(ctx context.Context, sel selection, version int, send func(kind string, o Object) error) error {
	for {
		changes, more := s.since(version)
		for _, c := range changes {
			if sel.has(c.ref) {
				if err := send(c.kind, c.object); err != nil {
					return err
				}
			}
		}
		version += len(changes)
		select {
		case <-ctx.Done():
			return nil
		case <-more:
		}
	}
}

// mark ends what a watch sends of the objects that were there.
func mark(r resource, version int) Object {
	return Object{"kind": r.kind, "apiVersion": r.groupVersion(), "metadata": map[string]any{
		"resourceVersion": strconv.Itoa(version), "annotations": map[string]any{"k8s.io/initial-events-end": "true"}}}
}
